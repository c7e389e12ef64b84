// SPDX-License-Identifier: Apache-2.0
#include "tests/ptx/values.h"

#include <cfenv>

namespace ptx_test {
namespace {

// Among the positive numbers of the format, which are in order of their bits, the largest with 0 <= number <=
// magnitude; infinity is above all.
template <typename Decode>
std::uint16_t below(double magnitude, std::uint16_t infinity, Decode decode) {
  std::uint16_t low = 0, high = infinity;
  if (decode(high) <= magnitude) return high;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (decode(middle) <= magnitude ? low : high) = middle;
  }
  return low;
}

// `beyond`: the next number if the format had one more exponent; from half way to it on, rounding goes to infinity.
template <typename Decode>
std::uint16_t rounded(double value, int rounding, std::uint16_t infinity, double beyond, Decode decode) {
  if (std::isnan(value)) return 0x7fff;
  const bool negative = std::signbit(value);
  const double magnitude = std::fabs(value);
  std::uint16_t low = below(magnitude, infinity, decode);
  if (low < infinity && decode(low) != magnitude) {
    const auto next = static_cast<std::uint16_t>(low + 1);
    const double above = next == infinity ? beyond : decode(next);
    const double to_low = magnitude - decode(low), to_next = above - magnitude;
    const bool up = rounding == FE_TONEAREST    ? to_next < to_low || (to_next == to_low && next % 2 == 0)
                    : rounding == FE_TOWARDZERO ? false
                    : rounding == FE_DOWNWARD   ? negative
                                                : !negative;
    if (up) low = next;
  }
  return static_cast<std::uint16_t>(low | (negative ? 0x8000 : 0));
}

}  // namespace

double from_f16(std::uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * INFINITY;
  return exponent == 0 ? sign * std::ldexp(fraction, -24) : sign * std::ldexp(1024 + fraction, exponent - 25);
}

double from_bf16(std::uint16_t bits) { return static_cast<double>(value<float>(std::uint64_t{bits} << 16)); }

std::uint16_t to_f16(double value, int rounding) { return rounded(value, rounding, 0x7c00, 65536, from_f16); }
std::uint16_t to_bf16(double value, int rounding) {
  return rounded(value, rounding, 0x7f80, std::ldexp(1, 128), from_bf16);
}

}  // namespace ptx_test
