// SPDX-License-Identifier: Apache-2.0
// How fast a step could be at best, if memory can only be swapped: the bounds that need no linear programming.
//
//   compute   the step's operators one after the other.
//   pinch     at operator k, whatever exceeds the budget must be away; what of it does not outlive the step left before
//   k and
//             returns after it. With C the operators' time before k (from k on) and E the link's time for those bytes,
//             the step takes at least max over k of max(C_before, E) + max(C_from, E).
//
// The step is the first of the last two whole ones, the steady state of a training run; of a file with fewer marks, the
// last. A trace that uses several streams has only the compute bound, the busiest stream's, since operators overlap.
// Both figures agree with the yardstick of the recorded workloads (bench/traces/bounds.json); the tighter bounds there
// (volume, slotted) are linear programmes and not computed here.
#pragma once

#include <vector>

#include "driver/units.h"
#include "trace/trace.h"

namespace thermocline {

// The step that the bounds speak of.
struct SteadyStep {
  std::vector<double> seconds;  // per operator
  std::vector<Bytes> live;      // bytes alive at each
  Bytes outliving = 0;          // alive when the step begins
  double busiest_stream = 0;    // seconds
  bool is_single_stream = true;
  // With less than this some operator finds no room, although everything of a MiB and more that it does not use is
  // away.
  Bytes least_budget = 0;
};

SteadyStep steady_step(const Trace& trace, const DeviceRates& rates);

struct Bounds {
  double compute_ms = 0;
  double pinch_ms = 0;  // 0 where it says nothing
  bool is_feasible = true;
  double bound_ms() const { return compute_ms > pinch_ms ? compute_ms : pinch_ms; }
};

Bounds swap_bounds(const SteadyStep& step, Bytes budget, const DeviceRates& rates);

}  // namespace thermocline
