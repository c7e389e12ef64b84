// SPDX-License-Identifier: Apache-2.0
#include "simulator/cuda/context/leftovers.h"

namespace simulator::cuda {

std::string leftovers(const Machine& machine) {
  const State& s = state();
  const struct {
    std::size_t count;
    const char* what;
  } kinds[] = {{s.streams.size(), "streams"},          {s.events.size(), "events"},
               {s.allocations.size(), "allocations"},  {s.arrays.size(), "arrays"},
               {s.host_flags.size(), "pinned ranges"}, {machine.reservations(), "address reservations"},
               {s.physical.size(), "memory handles"}};
  std::string said;
  for (const auto& kind : kinds) {
    if (kind.count > 0) said += (said.empty() ? "" : ", ") + std::to_string(kind.count) + " " + kind.what;
  }
  return said;
}

}  // namespace simulator::cuda
