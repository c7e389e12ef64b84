// SPDX-License-Identifier: Apache-2.0
// Lower bounds for the duration of a steady step (trace/steady_step.h) under a budget, if memory can only be swapped.
// docs/bound.md derives all of them and lists what they assume.
//
//   compute   the step's operators one after the other.
//   volume    the fewest bytes that have to be fetched within the step, over the link, if everything alive counts.
//   pinch     from memory that the step itself has written and still needs at operator k: the bytes beyond the budget
//             have been evicted before k and are fetched after it. With C the operators' time and E the link's time
//             for those bytes: max over k of max(C before k, E out) + max(C from k, E in).
//   slotted   a linear programme over time (trace/slotted_bound.h), if only buffers of 1 MiB or more can be evicted.
//   bound     the largest of compute, pinch, and slotted for buffers of any size.
//
// tests/trace/bounds_test.cc compares volume, pinch and slotted with an independent computation. A trace with several
// streams has only the compute bound, that of the busiest stream, because operators overlap.
#pragma once

#include <optional>

#include "driver/units.h"
#include "trace/slotted_bound.h"
#include "trace/steady_step.h"

namespace thermocline {

// Slots per round; more slots give no better bound on the recorded workloads.
inline constexpr std::size_t kDefaultSlots = 20;

struct Bounds {
  bool is_feasible = true;  // if false, some operator finds no room, and no other member is valid
  double compute_ms = 0;
  // Empty members: not requested, or not defined under the bound's assumption.
  std::optional<Bytes> restored_bytes;  // of volume, per step
  std::optional<double> volume_ms, pinch_ms, slotted_ms;
  double bound_ms = 0;
};

class SwapBounds {
 public:
  // `page_bytes`: see steady_step().
  SwapBounds(const Trace& trace, const DeviceRates& rates, std::size_t slots = kDefaultSlots, Bytes page_bytes = 1);

  Bounds under(Bytes budget) const;

  // False if the step after it differs: then no figure describes the program's steps.
  bool repeats() const { return step_.repeats; }
  // With less than this, some operator finds no room even if everything that it does not use is evicted.
  Bytes least_budget() const;
  const SteadyStep& step() const { return step_; }

 private:
  DeviceRates rates_;
  std::size_t slots_;
  Bytes page_bytes_;
  SteadyStep step_;
  SteadyStep with_ends_;
  SlotInput all_;    // of these operators; buffers of any size can be evicted
  SlotInput large_;  // only buffers of 1 MiB or more
};

// The fewest bytes that have to be fetched within the window, if only buffers of at least `smallest` can be evicted.
std::optional<Bytes> least_volume(const SteadyStep& step, Bytes budget, Bytes smallest);

}  // namespace thermocline
