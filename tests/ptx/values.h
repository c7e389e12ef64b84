// SPDX-License-Identifier: Apache-2.0
// Bits as values and back, for rules.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace ptx_test {

template <typename T>
T value(std::uint64_t bits) {
  T result{};
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

template <typename T>
std::uint64_t bits(T value) {
  std::uint64_t result = 0;
  std::memcpy(&result, &value, sizeof value);
  return result;
}

// Subnormal numbers become zeros with their sign.
inline float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

// Every half is exactly representable as a double.
double from_f16(std::uint16_t bits);
double from_bf16(std::uint16_t bits);

// `rounding` as in <cfenv>. By search among neighbors, not by arithmetic on bits.
std::uint16_t to_f16(double value, int rounding);
std::uint16_t to_bf16(double value, int rounding);

}  // namespace ptx_test
