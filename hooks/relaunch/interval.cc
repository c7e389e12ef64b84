// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/interval.h"

#include <algorithm>
#include <bit>

#include "hooks/relaunch/ptx_kernel.h"

namespace thermocline {
namespace {

constexpr std::int64_t kFar = Interval::kFar;
// A number that has grown far away by steps up to this has not wrapped around: that takes 2^38 steps of one thread,
// which are minutes of a GPU's time. C++ forbids it besides, of addresses and of signed numbers.
constexpr std::int64_t kLongestStep = std::int64_t{1} << 24;

Interval limited(std::int64_t least, std::int64_t most, int word = -1) {
  if (least < -kFar || most > kFar) return Interval::unknown();
  return {.is_known = true, .word = word, .least = least, .most = most};
}
bool are_numbers(const Interval& a, const Interval& b) { return a.is_number() && b.is_number(); }

}  // namespace

Interval hull(const Interval& a, const Interval& b) {
  if (!a.is_known || !b.is_known || a.word != b.word) return Interval::unknown();
  return {.is_known = true, .word = a.word, .least = std::min(a.least, b.least), .most = std::max(a.most, b.most)};
}

Interval in_both(const Interval& a, const Interval& b) {
  if (!a.is_known) return b;
  if (!b.is_known || a.word != b.word) return a;
  return {.is_known = true, .word = a.word, .least = std::max(a.least, b.least), .most = std::min(a.most, b.most)};
}

Interval widened(const Interval& before, const Interval& next, unsigned bytes) {
  Interval all = hull(before, next);
  if (!all.is_known) return all;
  // Half of what fits first: a guard may end the loop there.
  constexpr std::int64_t kHalf = std::int64_t{1} << 30;
  if (all.least < before.least) {
    if (bytes == 8) return Interval::unknown();
    all.least = all.least > -kHalf ? -kHalf : std::int64_t{INT32_MIN};
  }
  if (all.most > before.most) all.most = bytes == 8 ? kFar : all.most < kHalf ? kHalf : std::int64_t{INT32_MAX};
  return all;
}

Interval read_as(const Interval& in_register, std::string_view type) {
  const bool is_narrow = ptx_type_bytes(type) == 4;
  // A number in the code, or in a wider register, is read by its lower half.
  const Interval value = is_narrow ? written_as(in_register, type) : in_register;
  if (!value.is_known || type[0] != 'u' || value.least >= 0 || value.word >= 0) return value;
  if (!is_narrow) return Interval::unknown();
  constexpr std::int64_t kAround = std::int64_t{1} << 32;
  if (value.most < 0) return Interval::between(value.least + kAround, value.most + kAround);
  return Interval::between(0, kAround - 1);
}

Interval written_as(const Interval& value, std::string_view type) {
  const unsigned bytes = ptx_type_bytes(type);
  if (bytes == 8) return value;
  if (!value.is_number()) return Interval::any(bytes);
  if (value.least >= INT32_MIN && value.most <= INT32_MAX) return value;
  constexpr std::int64_t kAround = std::int64_t{1} << 32;
  if (value.least > INT32_MAX && value.most < kAround)
    return Interval::between(value.least - kAround, value.most - kAround);
  return Interval::any(4);
}

Interval sum(const Interval& a, const Interval& b) {
  if (!a.is_known || !b.is_known || (a.word >= 0 && b.word >= 0)) return Interval::unknown();
  const int word = std::max(a.word, b.word);
  std::int64_t least = 0, most = kFar;
  if (__builtin_add_overflow(a.least, b.least, &least)) return Interval::unknown();
  const bool grows_on = (a.most == kFar && b.most <= kLongestStep) || (b.most == kFar && a.most <= kLongestStep);
  if (!grows_on && __builtin_add_overflow(a.most, b.most, &most)) return Interval::unknown();
  return limited(least, most, word);
}

Interval difference(const Interval& a, const Interval& b) {
  if (!b.is_number()) return Interval::unknown();
  return sum(a, Interval::between(-b.most, -b.least));
}

Interval product(const Interval& a, const Interval& b) {
  if (!are_numbers(a, b)) return Interval::unknown();
  std::int64_t least = INT64_MAX, most = INT64_MIN;
  for (const std::int64_t one : {a.least, a.most}) {
    for (const std::int64_t other : {b.least, b.most}) {
      std::int64_t corner = 0;
      if (__builtin_mul_overflow(one, other, &corner)) return Interval::unknown();
      least = std::min(least, corner);
      most = std::max(most, corner);
    }
  }
  return limited(least, most);
}

Interval quotient(const Interval& a, const Interval& b) {
  if (!are_numbers(a, b) || b.least <= 0) return Interval::unknown();
  return Interval::between(a.least / (a.least >= 0 ? b.most : b.least), a.most / (a.most >= 0 ? b.least : b.most));
}

Interval remainder(const Interval& a, const Interval& b) {
  if (!are_numbers(a, b) || b.least <= 0) return Interval::unknown();
  return Interval::between(a.least >= 0 ? 0 : std::max(a.least, 1 - b.most),
                           a.most <= 0 ? 0 : std::min(a.most, b.most - 1));
}

Interval shifted_left(const Interval& a, const Interval& by) {
  if (!by.is_number() || by.least < 0 || by.most > 62) return Interval::unknown();
  return product(a, Interval::between(std::int64_t{1} << by.least, std::int64_t{1} << by.most));
}

Interval shifted_right(const Interval& a, const Interval& by) {
  if (!are_numbers(a, by) || by.least < 0) return Interval::unknown();
  // A longer shift has the result of this one.
  const auto shift = [](std::int64_t value, std::int64_t bits) { return value >> std::min<std::int64_t>(bits, 63); };
  return Interval::between(shift(a.least, a.least >= 0 ? by.most : by.least),
                           shift(a.most, a.most >= 0 ? by.least : by.most));
}

Interval bits_in_both(const Interval& a, const Interval& b) {
  if (!are_numbers(a, b) || (a.least < 0 && b.least < 0)) return Interval::unknown();
  std::int64_t most = INT64_MAX;
  if (a.least >= 0) most = std::min(most, a.most);
  if (b.least >= 0) most = std::min(most, b.most);
  return Interval::between(0, most);
}

Interval bits_in_either(const Interval& a, const Interval& b) {
  if (!are_numbers(a, b) || a.least < 0 || b.least < 0) return Interval::unknown();
  const auto bits = std::bit_width(static_cast<std::uint64_t>(a.most | b.most));
  return bits > 62 ? Interval::unknown() : Interval::between(0, (std::int64_t{1} << bits) - 1);
}

Interval lesser(const Interval& a, const Interval& b) {
  if (!are_numbers(a, b)) return Interval::unknown();
  return Interval::between(std::min(a.least, b.least), std::min(a.most, b.most));
}

Interval greater(const Interval& a, const Interval& b) {
  if (!are_numbers(a, b)) return Interval::unknown();
  return Interval::between(std::max(a.least, b.least), std::max(a.most, b.most));
}

}  // namespace thermocline
