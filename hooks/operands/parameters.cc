// SPDX-License-Identifier: Apache-2.0
// Compiled alone: its instructions are counted (scripts/count_instructions.sh), so inlining must be as in a package.
#include "hooks/operands/parameters.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace thermocline {
namespace {

#if defined(__x86_64__)
// For the 16 words that begin at 16 adjacent bytes, computes one bit each: whether the word may be in the range. Its
// two upper bytes must equal those of all addresses in the range, and its third byte must lie between those of the
// range's ends. This rules out nearly all data.
class Sieve {
 public:
  explicit Sieve(OwnRange owns)
      : upper_(byte(owns.begin, 7)),
        next_(byte(owns.begin, 6)),
        low_(byte(owns.begin, 5)),
        high_(byte(owns.begin + owns.bytes - 1, 5)) {}

  // Reads kReach bytes.
  static constexpr std::size_t kWords = 16;
  static constexpr std::size_t kReach = kWords + 7;
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
};

// Sieves 32 words at a time, by their second and third bytes alone: between the ends of the range as one number,
// these are nearly as rare.
class WideSieve {
 public:
  static constexpr std::size_t kWords = 32;
  static constexpr std::size_t kReach = kWords + 7;

  [[gnu::target("avx2")]] explicit WideSieve(OwnRange owns)
      : next_(_mm256_set1_epi8(static_cast<char>(owns.begin >> 48 & 0xFF))),
        minus_low_(_mm256_set1_epi8(static_cast<char>(0 - (owns.begin >> 40)))),
        span_(_mm256_set1_epi8(static_cast<char>(((owns.begin + owns.bytes - 1) >> 40) - (owns.begin >> 40)))) {}

  // A zero for each word that may be in the range.
  [[gnu::target("avx2")]] __m256i misses(const unsigned char* at) const {
    const __m256i beyond = _mm256_subs_epu8(_mm256_add_epi8(load(at + 5), minus_low_), span_);
    return _mm256_or_si256(beyond, _mm256_xor_si256(load(at + 6), next_));
  }
  // One bit each.
  [[gnu::target("avx2")]] static std::uint32_t zeros_of(__m256i bytes) {
    return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_setzero_si256())));
  }

 private:
  [[gnu::target("avx2")]] static __m256i load(const unsigned char* at) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  }

  __m256i next_, minus_low_, span_;
};

[[gnu::always_inline]] inline void scan_candidates(const unsigned char* at, std::uint64_t candidates, OwnRange owns,
                                                   AccessList* out) {
  for (; candidates != 0; candidates &= candidates - 1)
    scan_word(at + static_cast<unsigned>(__builtin_ctzll(candidates)), owns, out);
}

// One bit for each of 64 words.
[[gnu::target("avx2"), gnu::always_inline]] inline std::uint64_t candidates(__m256i first, __m256i second) {
  return WideSieve::zeros_of(first) | std::uint64_t{WideSieve::zeros_of(second)} << WideSieve::kWords;
}

// Four times as many words as a sieve takes. The first `skipped` have been examined before.
constexpr std::size_t kBlock = 4 * WideSieve::kWords;
[[gnu::target("avx2"), gnu::always_inline]] inline void scan_block_of(const WideSieve& sieve, const unsigned char* at,
                                                                      std::size_t skipped, OwnRange owns,
                                                                      AccessList* out) {
  constexpr std::size_t kWords = WideSieve::kWords, kHalf = 2 * kWords;
  const __m256i a = sieve.misses(at), b = sieve.misses(at + kWords);
  const __m256i c = sieve.misses(at + kHalf), d = sieve.misses(at + kHalf + kWords);
  if (WideSieve::zeros_of(_mm256_min_epu8(_mm256_min_epu8(a, b), _mm256_min_epu8(c, d))) == 0) [[likely]]
    return;
  if (skipped < kHalf) scan_candidates(at, candidates(a, b) >> skipped << skipped, owns, out);
  const std::size_t of_second = skipped < kHalf ? 0 : skipped - kHalf;
  scan_candidates(at + kHalf, candidates(c, d) >> of_second << of_second, owns, out);
}

// At most two sieves' words; the second sieve's end with the last. The first `skipped` have been examined before.
[[gnu::target("avx2"), gnu::always_inline]] inline void scan_half_of(const WideSieve& sieve, const unsigned char* at,
                                                                     std::size_t words, std::size_t skipped,
                                                                     OwnRange owns, AccessList* out) {
  const std::size_t second = words - WideSieve::kWords;
  const std::uint64_t found = std::uint64_t{WideSieve::zeros_of(sieve.misses(at))} |
                              std::uint64_t{WideSieve::zeros_of(sieve.misses(at + second))} << second;
  scan_candidates(at, found >> skipped << skipped, owns, out);
}

// `bytes` >= WideSieve::kReach. The last words are examined in a block that ends with them.
[[gnu::target("avx2")]] void scan_wide(const unsigned char* at, std::size_t bytes, OwnRange owns, AccessList* out) {
  constexpr std::size_t kHalf = kBlock / 2;
  const WideSieve sieve(owns);
  const std::size_t words = bytes - 7;
  if (words < kBlock) {
    scan_half_of(sieve, at, words < kHalf ? words : kHalf, 0, owns, out);
    if (words > kHalf) scan_half_of(sieve, at + words - kHalf, kHalf, kBlock - words, owns, out);
    return;
  }
  std::size_t done = 0;
  for (; done + kBlock <= words; done += kBlock) scan_block_of(sieve, at + done, 0, owns, out);
  if (done < words) scan_block_of(sieve, at + words - kBlock, done + kBlock - words, owns, out);
}

// Before it is initialized, it is false: then AVX2 is not used.
const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
#endif

// A range that crosses a multiple of 2^48 has no common upper bytes.
bool has_common_upper_bytes(OwnRange owns) {
  return owns.bytes != 0 && owns.begin >> 48 == (owns.begin + owns.bytes - 1) >> 48;
}

}  // namespace

void scan_parameter_narrow(const void* parameter, std::size_t bytes, OwnRange owns, AccessList* out) {
  const auto* at = static_cast<const unsigned char*>(parameter);
  std::size_t offset = 0;
#if defined(__x86_64__)
  if (bytes >= Sieve::kReach && has_common_upper_bytes(owns)) {
    const Sieve sieve(owns);
    for (; offset + Sieve::kReach <= bytes; offset += Sieve::kWords)
      scan_candidates(at + offset, sieve.candidates(at + offset), owns, out);
  }
#endif
  for (; offset + sizeof(std::uint64_t) <= bytes; ++offset) scan_word(at + offset, owns, out);
}

void scan_structure(const void* parameter, std::size_t bytes, OwnRange owns, AccessList* out) {
#if defined(__x86_64__)
  if (has_avx2 && bytes >= WideSieve::kReach && has_common_upper_bytes(owns))
    return scan_wide(static_cast<const unsigned char*>(parameter), bytes, owns, out);
#endif
  scan_parameter_narrow(parameter, bytes, owns, out);
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
