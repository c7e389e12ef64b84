// SPDX-License-Identifier: Apache-2.0
// How much less memory a step could take if its operators ran in another order: what a rewrite of the graph could gain,
// which a runtime below the framework can not do.
//
// A list scheduler over the step's dataflow. Every dependence that the trace shows is kept: who reads what was written
// runs behind the writer, who overwrites behind all that used the contents before. What a framework knows beyond that
// (random numbers, side effects) a trace does not say. Finding the best order is NP-hard (Sethi, "Complete register
// allocation problems", 1975); this is a heuristic, and the orders that it tries are simulated: the answer is one that
// a step can have, and never worse than the recorded one.
#pragma once

#include <cstdint>
#include <vector>

#include "driver/units.h"
#include "trace/steady_step.h"

namespace thermocline {

struct ExecutionOrder {
  // What is alive at most while the step runs:
  Bytes recorded_peak = 0;           // as recorded, from allocation to free
  Bytes trimmed_peak = 0;            // in the recorded order, from first use to last
  Bytes best_peak = 0;               // in `order`, from first use to last
  std::vector<std::uint32_t> order;  // the step's operators, by their place in the recorded one
};

ExecutionOrder better_order(const SteadyStep& step);

}  // namespace thermocline
