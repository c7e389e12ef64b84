// SPDX-License-Identifier: Apache-2.0
// A driver that calls back before the host waits for an event, and then waits. One object at a time in a process.
#pragma once

#include <functional>

#include "driver/table.h"

namespace thermocline {

inline std::function<void()> before_each_wait;

inline DriverTable telling_of_waits(const DriverTable& below) {
  static decltype(DriverTable::cuEventSynchronize) synchronize;
  static decltype(DriverTable::cuMemFreeHost) free_host;
  synchronize = below.cuEventSynchronize;
  free_host = below.cuMemFreeHost;
  DriverTable table = below;
  table.cuEventSynchronize = [](CUevent event) {
    before_each_wait();
    return synchronize(event);
  };
  table.cuMemFreeHost = [](void* at) {
    before_each_wait();
    return free_host(at);
  };
  return table;
}

}  // namespace thermocline
