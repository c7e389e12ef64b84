// SPDX-License-Identifier: Apache-2.0
// Finds the engine's addresses in bytes that are copied to the device. A device reads eight bytes at once only if they
// are aligned, but packed structures are read in halves, so all words at multiples of four bytes of the destination are
// examined. The upper half of an address distinguishes it from nearly all other data: 16 bytes cost four instructions
// (docs/hidden_pointers.md has the figures).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "driver/units.h"
#include "hooks/operands/parameters.h"

namespace thermocline {

// Earlier copies to the host may still be writing the bytes that are read here. Words found may then be partly old and
// partly new, which the contract in uploads.h allows; the thread sanitizer must ignore it.
#if defined(__SANITIZE_THREAD__)
#define THERMOCLINE_READS_WHAT_COPIES_WRITE __attribute__((no_sanitize("thread")))
#else
#define THERMOCLINE_READS_WHAT_COPIES_WRITE
#endif

class WordScan {
 public:
  explicit WordScan(OwnRange owns)
      : owns_(owns),
        first_(static_cast<std::uint32_t>(owns.begin >> 32)),
        span_(static_cast<std::uint32_t>((owns.begin + owns.bytes - 1) >> 32) - first_) {}

  // Calls found(offset in `bytes`, word) for each word found. `to` is the destination of the first byte. Words that
  // span two calls are not found.
  template <class Found>
  void operator()(const unsigned char* at, Bytes bytes, std::uint64_t to, Found found) const {
    Bytes offset = (4 - to % 4) % 4;
    if (bytes < offset + 8 || owns_.bytes == 0) return;
    // From here on `offset` is the position of an upper half.
    offset += 4;
#if defined(__SSE2__)
    for (; offset + 64 <= bytes; offset += 64) {
      for (unsigned left = candidates(at + offset); left != 0; left &= left - 1) {
        look(at, offset + Bytes{4} * static_cast<unsigned>(__builtin_ctz(left)), found);
      }
    }
#endif
    for (; offset + 4 <= bytes; offset += 4) look(at, offset, found);
  }

 private:
  THERMOCLINE_READS_WHAT_COPIES_WRITE static std::uint64_t word_at(const unsigned char* at) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
  }
  template <class Found>
  void look(const unsigned char* at, Bytes upper_half, Found found) const {
    const std::uint64_t word = word_at(at + upper_half - 4);
    if (owns_(DeviceAddress{word})) found(upper_half - 4, word);
  }

#if defined(__SSE2__)
  // For 16 halves, one bit each: whether it lies between the upper halves of the range's ends. SSE2 compares halves as
  // signed numbers, so the range is shifted to begin at the smallest of these.
  THERMOCLINE_READS_WHAT_COPIES_WRITE unsigned candidates(const unsigned char* at) const {
    const __m128i move = _mm_set1_epi32(static_cast<int>(0x80000000u - first_));
    const __m128i most = _mm_set1_epi32(static_cast<int>(0x80000000u + span_));
    __m128i beyond[4];
    for (int i = 0; i < 4; ++i) {
      const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at) + i);
      beyond[i] = _mm_cmpgt_epi32(_mm_add_epi32(halves, move), most);
    }
    const __m128i all = _mm_and_si128(_mm_and_si128(beyond[0], beyond[1]), _mm_and_si128(beyond[2], beyond[3]));
    if (_mm_movemask_epi8(all) == 0xFFFF) return 0;
    const __m128i packed =
        _mm_packs_epi16(_mm_packs_epi32(beyond[0], beyond[1]), _mm_packs_epi32(beyond[2], beyond[3]));
    return ~static_cast<unsigned>(_mm_movemask_epi8(packed)) & 0xFFFFu;
  }
#endif

  OwnRange owns_;
  std::uint32_t first_;
  std::uint32_t span_;
};

}  // namespace thermocline
