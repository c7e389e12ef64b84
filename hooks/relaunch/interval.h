// SPDX-License-Identifier: Apache-2.0
// Arithmetic of intervals: the integers that a register may hold, each result at least as wide as what PTX computes.
#pragma once

#include <cstdint>
#include <string_view>

namespace thermocline {

// The integer in a register of 32 or 64 bits, read as a signed one; or an address, as its distance in bytes from the one
// in a parameter word.
struct Interval {
  // Limits of an integer of 64 bits that is known; beyond, it may have wrapped around.
  static constexpr std::int64_t kFar = std::int64_t{1} << 62;

  bool is_known = false;
  int word = -1;  // of the parameters; -1: a number
  std::int64_t least = 0, most = 0;

  static Interval unknown() { return {}; }
  static Interval between(std::int64_t least, std::int64_t most) {
    return {.is_known = true, .word = -1, .least = least, .most = most};
  }
  static Interval number(std::int64_t value) { return between(value, value); }
  static Interval address(int word) { return {.is_known = true, .word = word, .least = 0, .most = 0}; }
  // All integers that a register of so many bytes may hold.
  static Interval any(unsigned bytes) {
    return bytes == 4 ? between(INT32_MIN, INT32_MAX) : bytes == 8 ? unknown() : between(-(1 << 16), 1 << 16);
  }

  bool is_number() const { return is_known && word < 0; }
  bool is_empty() const { return is_known && least > most; }
  bool operator==(const Interval&) const = default;
};

// Both, and what lies between.
Interval hull(const Interval& a, const Interval& b);
// The integers that are in both: of a register for which both hold.
Interval in_both(const Interval& a, const Interval& b);
// For a register that comes to hold `next`, too, as its loop goes on: all that it may hold in the end. Growing ends go
// far away.
Interval widened(const Interval& before, const Interval& next, unsigned bytes);
// The integer as an instruction of the type reads it, which has 32 or 64 bits: an unsigned one is not negative.
Interval read_as(const Interval& in_register, std::string_view type);
// The register after an instruction of the type has written the integer.
Interval written_as(const Interval& value, std::string_view type);

Interval sum(const Interval& a, const Interval& b);
Interval difference(const Interval& a, const Interval& b);
Interval product(const Interval& a, const Interval& b);
Interval quotient(const Interval& a, const Interval& b);
Interval remainder(const Interval& a, const Interval& b);
Interval shifted_left(const Interval& a, const Interval& by);
Interval shifted_right(const Interval& a, const Interval& by);
Interval bits_in_both(const Interval& a, const Interval& b);
// Also of bits that are in one of them alone.
Interval bits_in_either(const Interval& a, const Interval& b);
Interval lesser(const Interval& a, const Interval& b);
Interval greater(const Interval& a, const Interval& b);

}  // namespace thermocline
