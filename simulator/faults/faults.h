// SPDX-License-Identifier: Apache-2.0
// A plan at work: counts calls and says which of them fail.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "simulator/faults/plan.h"

namespace simulator {

class Faults {
 public:
  explicit Faults(FaultPlan plan);

  const FaultPlan& plan() const { return plan_; }

  // What the call answers instead of doing anything; CUDA_SUCCESS: nothing is wrong with it. `symbol` may have a
  // version.
  CUresult on_call(std::string_view symbol);
  bool lacks(std::string_view symbol) const;

  // The duration of the kernel of that ordinal, jittered.
  Time jittered(Time duration, std::uint64_t ordinal) const;

  std::uint64_t count() const { return count_; }

 private:
  struct Counter {
    std::uint64_t calls = 0;
    std::vector<const FaultRule*> rules;
  };

  bool fires(const FaultRule& rule, std::uint64_t call) const;
  CUresult check(Counter& counter, std::string_view function);

  const FaultPlan plan_;
  std::map<std::string, Counter, std::less<>> counters_;  // of functions that rules name
  Counter allocations_;                                   // of all functions that allocate
  std::uint64_t count_ = 0;
};

}  // namespace simulator
