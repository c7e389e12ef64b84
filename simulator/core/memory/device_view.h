// SPDX-License-Identifier: Apache-2.0
// While it lives, the system shows memory of devices as one of them may access it: kernels that run as host functions
// then fault where that device would. Between kernels it is shown as any device may access it, for copies do.
//
// Contract: with the machine's lock held, and no mapping changes meanwhile. Memory on the host is left as it is, for
// the program's own threads may be in it.
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
    Access shown = Access::kNone;  // otherwise
  };
  std::vector<Changed> changed_;
};

}  // namespace simulator
