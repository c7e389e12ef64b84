// SPDX-License-Identifier: Apache-2.0
// Executes a fault plan: counts calls and decides which of them fail.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "simulator/faults/plan.h"

namespace simulator {

// The duration of the kernel with that ordinal, with the plan's jitter.
Time jittered(const FaultPlan& plan, Time duration, std::uint64_t ordinal);

class Faults {
 public:
  explicit Faults(FaultPlan plan);

  const FaultPlan& plan() const { return plan_; }

  // The error that the call returns without doing anything; CUDA_SUCCESS: it does not fail. `symbol` may include a
  // version.
  CUresult on_call(std::string_view symbol);
  bool lacks(std::string_view symbol) const;

  // The duration of the kernel with that ordinal, with jitter.
  Time jittered(Time duration, std::uint64_t ordinal) const { return simulator::jittered(plan_, duration, ordinal); }

  std::uint64_t count() const { return count_; }

 private:
  struct Counter {
    std::uint64_t calls = 0;
    std::vector<const FaultRule*> rules;
  };

  bool fires(const FaultRule& rule, std::uint64_t call) const;
  CUresult check(Counter& counter, std::string_view function);

  const FaultPlan plan_;
  std::map<std::string, Counter, std::less<>> counters_;  // by function named in a rule
  Counter allocations_;                                   // for all functions that allocate
  std::uint64_t count_ = 0;
};

}  // namespace simulator
