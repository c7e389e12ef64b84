// SPDX-License-Identifier: Apache-2.0
// A driver that tells before the host waits for an event, and then does it. One at a time in a process.
#pragma once

#include <functional>

#include "driver/table.h"

namespace thermocline {

inline std::function<void()> before_each_wait;

inline DriverTable telling_of_waits(const DriverTable& below) {
  static decltype(DriverTable::cuEventSynchronize) synchronize;
  synchronize = below.cuEventSynchronize;
  DriverTable table = below;
  table.cuEventSynchronize = [](CUevent event) {
    before_each_wait();
    return synchronize(event);
  };
  return table;
}

}  // namespace thermocline
