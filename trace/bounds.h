// SPDX-License-Identifier: Apache-2.0
// How fast a steady step (trace/steady_step.h) could be at best under a budget, if memory can only be swapped.
// docs/bound.md derives all of these and lists what they assume.
//
//   compute   the step's operators one after the other.
//   volume    the fewest bytes that have to come back within the step, over the link, if all that is alive counts.
//   pinch     what the step itself has made and still wants at operator k, beyond the budget, has left before k and
//             returns after it: with C the operators' time and E the link's time for those bytes,
//             max over k of max(C before k, E out) + max(C from k, E in).
//   slotted   a linear programme over time (trace/slotted_bound.h), if only buffers of a MiB and more may leave.
//   bound     the largest of compute, pinch and what slotted gives if buffers of any size may leave.
//
// Volume, pinch and slotted are those of an independent computation, with which tests/trace/bounds_test.cc compares
// them. A trace that uses several streams has only the compute bound, the busiest stream's, since operators overlap.
#pragma once

#include <optional>

#include "driver/units.h"
#include "trace/slotted_bound.h"
#include "trace/steady_step.h"

namespace thermocline {

// A round's grid of slots; more of them find nothing more on the recorded workloads.
inline constexpr std::size_t kDefaultSlots = 20;

struct Bounds {
  bool is_feasible = true;  // else some operator finds no room, and no other figure holds
  double compute_ms = 0;
  // None: not asked for, or not to be had under the assumption.
  std::optional<Bytes> restored_bytes;  // volume's, a step
  std::optional<double> volume_ms, pinch_ms, slotted_ms;
  double bound_ms = 0;
};

class SwapBounds {
 public:
  // `page_bytes`: see steady_step().
  SwapBounds(const Trace& trace, const DeviceRates& rates, std::size_t slots = kDefaultSlots, Bytes page_bytes = 1);

  Bounds under(Bytes budget) const;

  // False: the step behind it is another one, so that no figure is of the program's steps.
  bool repeats() const { return step_.repeats; }
  // With less than this some operator finds no room, although everything that it does not use is away.
  Bytes least_budget() const;
  const SteadyStep& step() const { return step_; }

 private:
  DeviceRates rates_;
  std::size_t slots_;
  Bytes page_bytes_;
  SteadyStep step_;
  SlotInput all_;    // buffers of any size may leave
  SlotInput large_;  // those of a MiB and more may
};

// The fewest bytes that have to return within the window, if only buffers of `smallest` and more may leave.
std::optional<Bytes> least_volume(const SteadyStep& step, Bytes budget, Bytes smallest);

}  // namespace thermocline
