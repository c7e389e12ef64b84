// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/halves.h"

#include <cmath>

namespace simulator::ptx {

double decode_half(const Half& format, std::uint16_t bits) {
  const bool negative = (bits & 0x8000) != 0;
  const std::uint16_t rest = bits & 0x7fff;
  double value = 0;
  if (rest > format.infinity) {
    value = std::nan("");
  } else if (rest == format.infinity) {
    value = HUGE_VAL;
  } else {
    const int fraction_bits = format.digits - 1;
    const int exponent = rest >> fraction_bits;
    const int fraction = rest & ((1 << fraction_bits) - 1);
    // Subnormal numbers have the exponent of the smallest normal ones.
    value = exponent == 0 ? std::ldexp(fraction, format.least_exponent)
                          : std::ldexp(fraction + (1 << fraction_bits), format.least_exponent + exponent - 1);
  }
  return negative ? -value : value;
}

std::uint16_t encode_half(const Half& format, double value, std::uint32_t rounding) {
  if (std::isnan(value)) return 0x7fff;
  const bool negative = std::signbit(value);
  const auto sign = static_cast<std::uint16_t>(negative ? 0x8000 : 0);
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | format.infinity);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // In units of the last digit; a double represents each multiple exactly.
  const int unit = magnitude == 0 || exponent - format.digits < format.least_exponent ? format.least_exponent
                                                                                      : exponent - format.digits;
  const double scaled = std::ldexp(magnitude, -unit);
  double whole = std::floor(scaled);
  const double rest = scaled - whole;
  const bool up = rounding == 0   ? rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) != 0)
                  : rounding == 1 ? false
                  : rounding == 2 ? negative && rest > 0
                                  : !negative && rest > 0;
  if (up) whole += 1;
  // Exponent and fraction are added: a carry out of the fraction increments the exponent.
  const auto steps = static_cast<std::uint32_t>(unit - format.least_exponent);
  const std::uint32_t bits = (steps << (format.digits - 1)) + static_cast<std::uint32_t>(whole);
  if (bits < format.infinity) return static_cast<std::uint16_t>(sign | bits);
  const bool stays_finite = rounding == 1 || (rounding == 2 && !negative) || (rounding == 3 && negative);
  return static_cast<std::uint16_t>(sign | (stays_finite ? format.infinity - 1 : format.infinity));
}

}  // namespace simulator::ptx
