// SPDX-License-Identifier: Apache-2.0
// Integers as functions of a thread's index: sums of products, each of an axis, a number, and factors that are equal
// for all threads of a launch.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace thermocline {

// Axes: threadIdx and blockIdx along x, y, z, and the iteration number of a loop.
inline constexpr int kNoAxis = -1, kThreadAxis = 0, kBlockAxis = 3, kLoopAxis = 6;

struct LinearForm {
  // A register, or a special one, whose value is evaluated for each launch and read as an integer of `bytes` bytes.
  struct Factor {
    int reg = -1;
    std::string_view special;
    unsigned bytes = 8;
    bool is_signed = true;

    bool operator==(const Factor&) const = default;
  };
  struct Term {
    int axis = kNoAxis;
    std::int64_t number = 0;
    std::vector<Factor> factors;

    bool is_like(const Term& other) const { return axis == other.axis && factors == other.factors; }
    bool operator==(const Term&) const = default;
  };
  std::vector<Term> terms;
  bool is_too_large = false;  // one of its numbers overflows: nothing is known

  static LinearForm of_number(std::int64_t number);
  static LinearForm of_axis(int axis);
  static LinearForm of_factor(const Factor& factor);

  void add(const LinearForm& other, std::int64_t times = 1);
  LinearForm times(std::int64_t number) const;
  // Multiplied by a factor that is equal for all threads.
  LinearForm times(const Factor& factor) const;
  // A bit for each axis that occurs in it.
  std::uint64_t axes() const;
  // The form with the axis set to 0.
  LinearForm without(int axis) const;
  // Whether it equals number() for every thread and every launch.
  bool is_number() const {
    return !is_too_large &&
           (terms.empty() || (terms.size() == 1 && terms[0].axis == kNoAxis && terms[0].factors.empty()));
  }
  std::int64_t number() const { return terms.empty() ? 0 : terms[0].number; }
  Term* like(const Term& term);
  bool operator==(const LinearForm& other) const;
};

}  // namespace thermocline
