// SPDX-License-Identifier: Apache-2.0
// Conversions of two numbers between halves and formats of 4 to 8 bits.
#include <cmath>
#include <cstdint>

#include "simulator/ptx/halves.h"
#include "simulator/ptx/helpers.h"
#include "simulator/ptx/small_floats.h"

namespace simulator::ptx {
namespace {

// `what` as emit_small_floats.cc packs it: the format, and flags.
constexpr std::uint32_t kRelu = 256, kUp = 512, kBfloat = 512;

SmallFloat format_of(std::uint32_t what) { return static_cast<SmallFloat>(what & 15); }
unsigned shift_of(SmallFloat format) { return format == SmallFloat::kE2m1 ? 4 : 8; }

// NaN stays NaN.
double relu(double value, std::uint32_t what) { return (what & kRelu) != 0 && value < 0 ? 0 : value; }

std::uint32_t to_small(double high, double low, std::uint32_t what) {
  const SmallFloat format = format_of(what);
  const auto encode = [&](double value) {
    return std::uint32_t{encode_small(format, relu(value, what), (what & kUp) != 0)};
  };
  return encode(high) << shift_of(format) | encode(low);
}

std::uint32_t from_small(std::uint32_t pair, std::uint32_t what) {
  const SmallFloat format = format_of(what);
  const unsigned shift = shift_of(format);
  const auto half = [&](std::uint32_t code) {
    const double value = relu(decode_small(format, static_cast<std::uint8_t>(code & ((1u << shift) - 1))), what);
    return std::uint32_t{encode_half((what & kBfloat) != 0 ? kBf16 : kF16, value, 0)};
  };
  return half(pair >> shift) << 16 | half(pair);
}

}  // namespace

void add_small_float_helpers(std::vector<Helper>* to) {
  to->push_back({"ptx_to_small", reinterpret_cast<const void*>(to_small)});
  to->push_back({"ptx_from_small", reinterpret_cast<const void*>(from_small)});
}

}  // namespace simulator::ptx
