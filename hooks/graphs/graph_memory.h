// SPDX-License-Identifier: Apache-2.0
// Memory that graphs allocate, by recorded calls or by nodes, is the driver's own: its addresses mean nothing here. The
// driver takes it from the device when such a graph is launched or uploaded, and keeps it for the next one until it is
// told not to (cuDeviceGraphMemTrim). So from the first node of that kind on, what it holds counts against the budget
// as the program's own mappings do, and a launch that finds no memory is made again with more room.
#pragma once

#include "hooks/runtime/guarded.h"
#include "hooks/submit/driver_room.h"

namespace thermocline {

// Some graph was given a node that allocates.
void graphs_allocate();
bool any_graph_allocates();

// Notes what an executable graph names that `call` makes of the graph (graph_execs.h).
CUresult instantiated_with(CUgraphExec* exec, CUgraph graph, const CUDA_GRAPH_INSTANTIATE_PARAMS* params, Call call);

// Tells the engines what the driver holds for graphs now.
void count_graph_memory();

// Makes `call` by submit(call), again with more room where the driver has no memory for what it is about to do.
template <class Submit>
CUresult with_graph_memory(Submit submit, Call call) {
  if (engines_now() == nullptr) return submit(call);
  const auto listening = [&] { return heard(call()); };
  const CUresult result = with_driver_room([&] { return submit(listening); });
  count_graph_memory();
  return result;
}

}  // namespace thermocline
