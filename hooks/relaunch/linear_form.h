// SPDX-License-Identifier: Apache-2.0
// Integers in terms of where a thread is: sums of products of an axis, of numbers, and of what is the same for all
// threads of a launch.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace thermocline {

// Axes: threadIdx and blockIdx along x, y, z, and how often a loop has come around.
inline constexpr int kNoAxis = -1, kThreadAxis = 0, kBlockAxis = 3, kLoopAxis = 6;

struct LinearForm {
  // A register, or a special one, of which evaluation for a launch gives the value, read as an integer of these bytes.
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
  bool is_too_large = false;  // a number of it is: nothing is known

  static LinearForm of_number(std::int64_t number);
  static LinearForm of_axis(int axis);
  static LinearForm of_factor(const Factor& factor);

  void add(const LinearForm& other, std::int64_t times = 1);
  LinearForm times(std::int64_t number) const;
  // By what is the same for all threads.
  LinearForm times(const Factor& factor) const;
  // A bit for each axis.
  std::uint64_t axes() const;
  // At 0 of the axis.
  LinearForm without(int axis) const;
  // Whether it is number() whatever the thread and the launch.
  bool is_number() const {
    return !is_too_large &&
           (terms.empty() || (terms.size() == 1 && terms[0].axis == kNoAxis && terms[0].factors.empty()));
  }
  std::int64_t number() const { return terms.empty() ? 0 : terms[0].number; }
  Term* like(const Term& term);
  bool operator==(const LinearForm& other) const;
};

}  // namespace thermocline
