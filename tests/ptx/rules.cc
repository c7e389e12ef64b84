// SPDX-License-Identifier: Apache-2.0
#include "tests/ptx/rules.h"

#include <cmath>

#include "tests/ptx/values.h"

namespace ptx_test {
namespace {

bool is_nan(Kind kind, std::uint64_t bits) {
  return bits_of(kind) == 64 ? std::isnan(value<double>(bits)) : std::isnan(value<float>(bits));
}

bool agree_as_half(HalfFormat format, std::uint64_t a, std::uint64_t b) {
  const auto x = static_cast<std::uint16_t>(a), y = static_cast<std::uint16_t>(b);
  const std::uint16_t infinity = format == HalfFormat::kF16 ? 0x7c00 : 0x7f80;
  return x == y || ((x & 0x7fff) > infinity && (y & 0x7fff) > infinity);
}

bool are_close(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return true;
  return std::fabs(a - b) <= std::ldexp(std::fmax(1, std::fabs(a)), -20);
}

}  // namespace

const std::vector<Rule>& rules() {
  static const auto& all = *new std::vector<Rule>([] {
    std::vector<Rule> made;
    add_integer_rules(&made);
    add_bit_rules(&made);
    add_float_rules(&made);
    add_conversion_rules(&made);
    add_comparison_rules(&made);
    add_video_rules(&made);
    return made;
  }());
  return all;
}

bool agree(const Rule& rule, std::uint64_t expected, std::uint64_t found) {
  if (expected == found) return true;
  switch (rule.closeness) {
    case Closeness::kExact:
      return false;
    case Closeness::kFloat16:
      return agree_as_half(rule.halves, expected, found) &&
             (rule.out != Kind::k32 || agree_as_half(rule.halves, expected >> 16, found >> 16));
    case Closeness::kFloatPair:
      for (const unsigned shift : {0u, 32u}) {
        const std::uint64_t a = expected >> shift & 0xffffffff, b = found >> shift & 0xffffffff;
        if (a != b && !(is_nan(Kind::kF32, a) && is_nan(Kind::kF32, b))) return false;
      }
      return true;
    case Closeness::kFloat:
      return is_nan(rule.out, expected) && is_nan(rule.out, found);
    default:
      return are_close(static_cast<double>(value<float>(expected)), static_cast<double>(value<float>(found)));
  }
}

}  // namespace ptx_test
