// SPDX-License-Identifier: Apache-2.0
// The part of a video instruction besides its operands: the emitter packs it into one word for the helper.
#pragma once

#include <cstdint>

namespace simulator::ptx {

enum class VideoOperation : std::uint8_t {
  kAdd,
  kSub,
  kDifference,
  kAverage,
  kMin,
  kMax,
  kShiftLeft,
  kShiftRight,
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
};

// The second operation, on the result and c.
enum class VideoSecond : std::uint8_t { kNone, kAdd, kMin, kMax };

struct Video {
  VideoOperation operation = VideoOperation::kAdd;
  VideoSecond second = VideoSecond::kNone;
  bool a_is_signed = false, b_is_signed = false, d_is_signed = false;
  bool saturates = false;
  bool wraps = false;       // shifts
  unsigned lanes = 1;       // 1; 2 halves; 4 bytes
  unsigned mask = 15;       // lanes that are computed; the others are those of c
  unsigned part_at = 0;     // bits, with one lane: the part of the destination that is computed
  unsigned part_bits = 32;  // 8, 16 or 32

  std::uint32_t packed() const {
    return static_cast<std::uint32_t>(operation) | static_cast<std::uint32_t>(second) << 4 | (a_is_signed ? 64u : 0u) |
           (b_is_signed ? 128u : 0u) | (d_is_signed ? 256u : 0u) | (saturates ? 512u : 0u) | (wraps ? 1024u : 0u) |
           lanes << 11 | mask << 14 | part_at << 18 | part_bits << 23;
  }
  static Video unpacked(std::uint32_t word) {
    Video video;
    video.operation = static_cast<VideoOperation>(word & 15);
    video.second = static_cast<VideoSecond>(word >> 4 & 3);
    video.a_is_signed = (word & 64) != 0;
    video.b_is_signed = (word & 128) != 0;
    video.d_is_signed = (word & 256) != 0;
    video.saturates = (word & 512) != 0;
    video.wraps = (word & 1024) != 0;
    video.lanes = word >> 11 & 7;
    video.mask = word >> 14 & 15;
    video.part_at = word >> 18 & 31;
    video.part_bits = word >> 23 & 63;
    return video;
  }
};

}  // namespace simulator::ptx
