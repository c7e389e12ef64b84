// SPDX-License-Identifier: Apache-2.0
#include "hooks/operands/parameters.h"

#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace thermocline {
namespace {

void scan_word(const unsigned char* at, OwnRange owns, AccessList* out) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  if (owns(DeviceAddress{word})) out->word(word);
}

#if defined(__SSE2__)
// For the 16 words that begin at 16 adjacent bytes, computes one bit each: whether the word may be in the range. Its
// two upper bytes must equal those of all addresses in the range, and its third byte must lie between those of the
// range's ends. This rules out nearly all data.
class Sieve {
 public:
  explicit Sieve(OwnRange owns)
      : upper_(byte(owns.begin, 7)),
        next_(byte(owns.begin, 6)),
        low_(byte(owns.begin, 5)),
        high_(byte(owns.begin + owns.bytes - 1, 5)),
        applies_(owns.bytes != 0 && owns.begin >> 48 == (owns.begin + owns.bytes - 1) >> 48) {}

  // A range that crosses a multiple of 2^48 has no common upper bytes.
  bool applies() const { return applies_; }
  // Reads kReach bytes.
  static constexpr std::size_t kReach = 23;
  unsigned candidates(const unsigned char* at) const {
    const __m128i third = load(at + 5);
    const __m128i between = _mm_and_si128(_mm_cmpeq_epi8(_mm_max_epu8(third, low_), third),
                                          _mm_cmpeq_epi8(_mm_min_epu8(third, high_), third));
    const __m128i upper = _mm_and_si128(_mm_cmpeq_epi8(load(at + 7), upper_), _mm_cmpeq_epi8(load(at + 6), next_));
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_and_si128(between, upper)));
  }

 private:
  static __m128i byte(std::uint64_t word, unsigned index) {
    return _mm_set1_epi8(static_cast<char>(static_cast<unsigned char>(word >> (8 * index))));
  }
  static __m128i load(const unsigned char* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }

  __m128i upper_, next_, low_, high_;
  bool applies_;
};
#endif

}  // namespace

void scan_parameter(const void* parameter, std::size_t bytes, OwnRange owns, AccessList* out) {
  const auto* at = static_cast<const unsigned char*>(parameter);
  std::size_t offset = 0;
#if defined(__SSE2__)
  if (const Sieve sieve(owns); bytes >= Sieve::kReach && sieve.applies()) {
    for (; offset + Sieve::kReach <= bytes; offset += 16) {
      for (unsigned left = sieve.candidates(at + offset); left != 0; left &= left - 1) {
        scan_word(at + offset + static_cast<unsigned>(__builtin_ctz(left)), owns, out);
      }
    }
  }
#endif
  for (; offset + sizeof(std::uint64_t) <= bytes; ++offset) scan_word(at + offset, owns, out);
}

ExtraBlock read_extra(void* const* extra) {
  ExtraBlock block;
  if (extra == nullptr) return block;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      block.at = extra[1];
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      if (extra[1] != nullptr) block.bytes = *static_cast<const std::size_t*>(extra[1]);
    } else {
      break;
    }
  }
  return block;
}

}  // namespace thermocline
