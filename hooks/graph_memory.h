// SPDX-License-Identifier: Apache-2.0
// Memory that graphs allocate, by recorded calls or by nodes, is the driver's own: its addresses mean nothing here. The
// driver takes it from the device when such a graph is launched or uploaded, and keeps it for the next one until it is
// told not to (cuDeviceGraphMemTrim). So from the first node of that kind on, what it holds counts against the budget
// as the program's own mappings do, and a launch that finds no memory is made again with more room.
#pragma once

#include "hooks/submit.h"

namespace thermocline {

// Some graph was given a node that allocates.
void graphs_allocate();
bool any_graph_allocates();

// Tells the engines what the driver holds for graphs now.
void count_graph_memory();

// Room on every device beside what is counted, as long as this lives: more with each call.
class GraphRoom {
 public:
  GraphRoom() = default;
  ~GraphRoom();
  GraphRoom(const GraphRoom&) = delete;
  GraphRoom& operator=(const GraphRoom&) = delete;

  // False where no more can be had.
  bool grow();

 private:
  bool grow_on(const ActiveEngine& active);

  Bytes held_[EngineSet::kMost] = {};  // by device
  bool began_ = false;
};

// Makes `call` by submit(call), again with more room where the driver has no memory for what it is about to do.
template <class Submit>
CUresult with_graph_memory(Submit submit, Call call) {
  if (!any_graph_allocates() || engines_now() == nullptr) return submit(call);
  CUresult of_driver = CUDA_SUCCESS;
  const auto listening = [&] { return of_driver = call(); };
  CUresult result = submit(listening);
  {
    GraphRoom room;
    while (of_driver == CUDA_ERROR_OUT_OF_MEMORY && room.grow()) {
      of_driver = CUDA_SUCCESS;
      result = submit(listening);
    }
  }
  count_graph_memory();
  return result;
}

}  // namespace thermocline
