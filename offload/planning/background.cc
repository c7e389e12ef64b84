// SPDX-License-Identifier: Apache-2.0
#include "offload/planning/background.h"

#include "driver/host_reserve.h"

namespace thermocline {

std::thread start_in_background(const std::function<void()>& work) {
  std::thread thread = try_in_background([work] {
    HostReserve::leave_alone();
    work();
  });
  if (!thread.joinable()) work();
  return thread;
}

}  // namespace thermocline
