// SPDX-License-Identifier: Apache-2.0
// While an object of this class lives, the system's protection of device memory allows what one of the devices may
// access, so that kernels that run as host functions fault where that device would. Between kernels, because of copies,
// the protection allows what any device may access.
//
// Contract: the machine's lock is held, and no mapping changes meanwhile. Host memory is not changed, because the
// program's own threads may be accessing it.
#pragma once

#include <vector>

#include "simulator/core/memory/address_space.h"

namespace simulator {

class DeviceView {
 public:
  DeviceView(const AddressSpace& addresses, DeviceId device);
  ~DeviceView();
  DeviceView(const DeviceView&) = delete;
  DeviceView& operator=(const DeviceView&) = delete;

 private:
  struct Changed {
    Address at = 0;
    Bytes bytes = 0;
    Access shown = Access::kNone;  // the protection otherwise
  };
  std::vector<Changed> changed_;
};

}  // namespace simulator
