// SPDX-License-Identifier: Apache-2.0
// The two 16-bit formats: IEEE binary16, and bfloat16. All of their values are doubles.
#pragma once

#include <cstdint>

namespace simulator::ptx {

struct Half {
  int digits;          // of the significand, including the leading one
  int least_exponent;  // of the last digit of the smallest normal number's significand: value = n * 2^least_exponent
  std::uint16_t infinity;
};

inline constexpr Half kF16{11, -24, 0x7c00};
inline constexpr Half kBf16{8, -133, 0x7f80};

double decode_half(const Half& format, std::uint16_t bits);
// rounding: 0 to nearest even, 1 toward zero, 2 down, 3 up. NaN becomes 0x7fff, as on devices.
std::uint16_t encode_half(const Half& format, double value, std::uint32_t rounding);

}  // namespace simulator::ptx
