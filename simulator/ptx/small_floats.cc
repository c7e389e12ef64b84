// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/small_floats.h"

#include <algorithm>
#include <cmath>

namespace simulator::ptx {
namespace {

struct Format {
  int exponent_bits;
  int fraction_bits;
  std::uint8_t largest;  // the code of the largest finite number
  std::uint8_t nan;      // the code that NaN becomes

  std::uint8_t sign() const { return static_cast<std::uint8_t>(1u << (exponent_bits + fraction_bits)); }
  // value = n * 2^least_exponent, for subnormal numbers
  int least_exponent() const { return 2 - (1 << (exponent_bits - 1)) - fraction_bits; }
};

constexpr Format kFormats[] = {
    {4, 3, 0x7e, 0x7f}, {5, 2, 0x7b, 0x7f}, {3, 2, 0x1f, 0x1f}, {2, 3, 0x1f, 0x1f}, {2, 1, 0x07, 0x07}};

constexpr int kUe8m0Bias = 127;
constexpr std::uint8_t kUe8m0Largest = 0xfe, kUe8m0Nan = 0xff;

std::uint8_t encode_ue8m0(double value, bool up) {
  if (std::isnan(value)) return kUe8m0Nan;
  if (std::isinf(value)) return kUe8m0Largest;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // from 0.5 to 1, or zero
  if (fraction == 0) return 0;
  const int code = exponent - 1 + kUe8m0Bias + (up && fraction > 0.5 ? 1 : 0);
  return static_cast<std::uint8_t>(std::clamp<int>(code, 0, kUe8m0Largest));
}

}  // namespace

double decode_small(SmallFloat which, std::uint8_t code) {
  if (which == SmallFloat::kUe8m0) return code == kUe8m0Nan ? std::nan("") : std::ldexp(1.0, code - kUe8m0Bias);
  const Format& format = kFormats[static_cast<unsigned>(which)];
  const int rest = code & (format.sign() - 1);
  const int exponent = rest >> format.fraction_bits, one = 1 << format.fraction_bits;
  const int fraction = rest & (one - 1);
  double value = 0;
  if (rest > format.largest) {
    value = which == SmallFloat::kE5m2 && fraction == 0 ? HUGE_VAL : std::nan("");
  } else {
    value = exponent == 0 ? std::ldexp(fraction, format.least_exponent())
                          : std::ldexp(fraction + one, format.least_exponent() + exponent - 1);
  }
  return (code & format.sign()) != 0 ? -value : value;
}

std::uint8_t encode_small(SmallFloat which, double value, bool up) {
  if (which == SmallFloat::kUe8m0) return encode_ue8m0(value, up);
  const Format& format = kFormats[static_cast<unsigned>(which)];
  if (std::isnan(value)) return format.nan;
  const auto sign = static_cast<std::uint8_t>(std::signbit(value) ? format.sign() : 0);
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (magnitude >= decode_small(which, format.largest)) return sign | format.largest;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int unit = std::max(format.least_exponent(), exponent - 1 - format.fraction_bits);
  const auto whole = static_cast<int>(std::nearbyint(std::ldexp(magnitude, -unit)));
  // Exponent and fraction are added: a carry out of the fraction increments the exponent.
  const int code = ((unit - format.least_exponent()) << format.fraction_bits) + whole;
  return static_cast<std::uint8_t>(sign | std::min<int>(code, format.largest));
}

}  // namespace simulator::ptx
