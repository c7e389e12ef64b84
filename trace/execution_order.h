// SPDX-License-Identifier: Apache-2.0
// How much less memory a step would need if its operators ran in another order: the possible gain of rewriting the
// graph, which a runtime below the framework cannot do.
//
// A list scheduler over the step's dataflow. It keeps every dependence that the trace shows: an operator that reads
// runs after the one that wrote, and one that overwrites runs after all users of the former contents. A trace does not
// show other dependences that a framework knows (random numbers, side effects). Finding the best order is NP-hard
// (Sethi, "Complete register allocation problems", 1975). This is a heuristic whose candidate orders are simulated: the
// result is a valid order, and never worse than the recorded one.
#pragma once

#include <cstdint>
#include <vector>

#include "driver/units.h"
#include "trace/steady_step.h"

namespace thermocline {

struct ExecutionOrder {
  // Peak of live bytes while the step runs:
  Bytes recorded_peak = 0;           // as recorded, from allocation to free
  Bytes trimmed_peak = 0;            // in the recorded order, from first use to last
  Bytes best_peak = 0;               // in `order`, from first use to last
  std::vector<std::uint32_t> order;  // the step's operators, as indices into the recorded order
};

ExecutionOrder better_order(const SteadyStep& step);

}  // namespace thermocline
