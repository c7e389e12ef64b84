// SPDX-License-Identifier: Apache-2.0
// Video instructions. Source: the pseudo-code of PTX ISA 9.0, 9.7.17.
#include <algorithm>
#include <cstdint>

#include "simulator/ptx/helpers.h"
#include "simulator/ptx/video.h"

namespace simulator::ptx {
namespace {

using Operation = VideoOperation;

std::int64_t shifted(const Video& video, std::int64_t a, std::int64_t b) {
  const std::int64_t by = video.wraps ? b & 31 : std::min<std::int64_t>(b, 32);
  if (video.operation == Operation::kShiftRight) return a >> by;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) << by);
}

std::int64_t computed(const Video& video, std::int64_t a, std::int64_t b) {
  switch (video.operation) {
    case Operation::kAdd:
      return a + b;
    case Operation::kSub:
      return a - b;
    case Operation::kDifference:
      return a < b ? b - a : a - b;
    case Operation::kAverage:
      return (a + b + (a + b >= 0 ? 1 : 0)) >> 1;
    case Operation::kMin:
      return std::min(a, b);
    case Operation::kMax:
      return std::max(a, b);
    case Operation::kEqual:
      return a == b ? 1 : 0;
    case Operation::kNotEqual:
      return a != b ? 1 : 0;
    case Operation::kLess:
      return a < b ? 1 : 0;
    case Operation::kLessOrEqual:
      return a <= b ? 1 : 0;
    case Operation::kGreater:
      return a > b ? 1 : 0;
    case Operation::kGreaterOrEqual:
      return a >= b ? 1 : 0;
    default:
      return shifted(video, a, b);
  }
}

std::int64_t saturated(std::int64_t value, bool is_signed, unsigned bits) {
  const std::int64_t one = 1;
  return is_signed ? std::clamp(value, -(one << (bits - 1)), (one << (bits - 1)) - 1)
                   : std::clamp<std::int64_t>(value, 0, (one << bits) - 1);
}

std::int64_t extended(std::uint32_t part, bool is_signed, unsigned bits) {
  const std::uint64_t kept = part & ((std::uint64_t{1} << bits) - 1);
  const bool is_negative = is_signed && (kept >> (bits - 1) & 1) != 0;
  return static_cast<std::int64_t>(kept) - (is_negative ? std::int64_t{1} << bits : 0);
}

// One lane. a and b have been selected and extended.
std::uint32_t video_of(std::int64_t a, std::int64_t b, std::uint32_t c, std::uint32_t what) {
  const Video video = Video::unpacked(what);
  std::int64_t result = computed(video, a, b);
  if (video.saturates) result = saturated(result, video.d_is_signed, video.part_bits);
  const auto word = static_cast<std::uint32_t>(result);
  const std::int64_t own = extended(word, video.d_is_signed, 32), other = extended(c, video.d_is_signed, 32);
  if (video.second == VideoSecond::kAdd) return word + c;
  if (video.second == VideoSecond::kMin) return own < other ? word : c;
  if (video.second == VideoSecond::kMax) return own > other ? word : c;
  if (video.part_bits == 32) return word;
  const std::uint32_t mask = ((1u << video.part_bits) - 1) << video.part_at;
  return (word << video.part_at & mask) | (c & ~mask);
}

// Lane i takes the part of the two sources whose number is in nibble i of the selector.
std::uint32_t video_lanes(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t what, std::uint32_t a_parts,
                          std::uint32_t b_parts) {
  const Video video = Video::unpacked(what);
  const unsigned bits = 32 / video.lanes;
  const std::uint64_t both = std::uint64_t{b} << 32 | a;
  const auto part = [&](std::uint32_t parts, unsigned lane, bool is_signed) {
    const unsigned number = parts >> (4 * lane) & 15;
    return extended(static_cast<std::uint32_t>(both >> (number * bits & 63)), is_signed, bits);
  };
  std::uint32_t result = video.second == VideoSecond::kAdd ? c : 0;
  for (unsigned lane = 0; lane < video.lanes; ++lane) {
    const auto mask = static_cast<std::uint32_t>(((std::uint64_t{1} << bits) - 1) << (lane * bits));
    if ((video.mask >> lane & 1) == 0) {
      if (video.second == VideoSecond::kNone) result |= c & mask;
      continue;
    }
    std::int64_t value =
        computed(video, part(a_parts, lane, video.a_is_signed), part(b_parts, lane, video.b_is_signed));
    if (video.saturates) value = saturated(value, video.d_is_signed, bits);
    if (video.second == VideoSecond::kAdd) {
      result += static_cast<std::uint32_t>(value);
    } else {
      result |= static_cast<std::uint32_t>(value) << (lane * bits) & mask;
    }
  }
  return result;
}

// a * b + c, shifted. a and b have been selected and extended. `flags`: 1 a signed result, 2 saturates, 4 adds one
// more.
std::uint32_t vmad(std::int64_t a, std::int64_t b, std::uint32_t c, std::uint32_t shift, std::uint32_t flags) {
  __extension__ using Wide = __int128;
  const bool is_signed = (flags & 1) != 0;
  Wide sum = static_cast<Wide>(a) * b + extended(c, is_signed, 32) + ((flags & 4) != 0 ? 1 : 0);
  sum >>= shift;
  if ((flags & 2) != 0) {
    const Wide least = is_signed ? INT32_MIN : 0, most = is_signed ? Wide{INT32_MAX} : Wide{UINT32_MAX};
    sum = std::clamp(sum, least, most);
  }
  return static_cast<std::uint32_t>(sum);
}

}  // namespace

void add_video_helpers(std::vector<Helper>* to) {
  to->push_back({"ptx_video", reinterpret_cast<const void*>(video_of)});
  to->push_back({"ptx_video_lanes", reinterpret_cast<const void*>(video_lanes)});
  to->push_back({"ptx_vmad", reinterpret_cast<const void*>(vmad)});
}

}  // namespace simulator::ptx
