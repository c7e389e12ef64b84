// SPDX-License-Identifier: Apache-2.0
// Memory that graphs allocate, by captured calls or by nodes, belongs to the driver, and to no engine. The driver
// takes it from the device when such a graph is launched or uploaded, and keeps it for the next launch until it is
// told to release it (cuDeviceGraphMemTrim). So from the first such node on, this memory counts against the budget
// like the program's own mappings, and a launch that fails for lack of memory is repeated after more room was
// made.
#pragma once

#include "hooks/runtime/guarded.h"
#include "hooks/submit/driver_room.h"

namespace thermocline {

// Some graph got a node that allocates.
void note_graph_allocates();
bool any_graph_allocates();

// Instantiates the graph with `call` and records what the executable graph names (graph_execs.h).
CUresult instantiated_with(CUgraphExec* exec, CUgraph graph, const CUDA_GRAPH_INSTANTIATE_PARAMS* params, Call call);

// Tells the engines how much memory the driver holds for graphs now.
void count_graph_memory();
// Call it after the host waited for a stream: counts what could not be counted while streams were blocked.
void count_late_graph_memory();

// Returns to the device the memory that the driver holds for graphs and that no graph needs now.
void trim_graph_memory(const ActiveEngine& active);

// Makes `call` by submit(call); repeats it with more room if the driver is out of memory.
template <class Submit>
CUresult with_graph_memory(Submit submit, Call call) {
  if (engines_now() == nullptr) return submit(call);
  const auto listening = [&] { return heard(call()); };
  const CUresult result = with_driver_room([&] { return submit(listening); });
  count_graph_memory();
  return result;
}

}  // namespace thermocline
