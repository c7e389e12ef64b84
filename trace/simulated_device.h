// SPDX-License-Identifier: Apache-2.0
// The simulator's libcuda.so.1 in this process: loaded by its path, configured before its first call, with a context
// current on the calling thread. One at a time; each new one starts from the initial state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "driver/driver.h"
#include "driver/units.h"
#include "simulator/control.h"

namespace thermocline {

struct SimulatedDeviceOptions {
  std::string library;  // path of the simulator's libcuda.so.1
  std::string profile = "reference";
  std::string timeline;               // file for the times at which operations ran; empty: none
  std::optional<std::uint64_t> seed;  // adversarial order; unset: order of time
  Bytes memory_bytes = 0;             // 0: the profile's
  bool check = false;                 // detect races
  bool tagged = true;                 // memory holds tags instead of bytes, and kernels mix
};

class SimulatedDevice {
 public:
  // Null on failure, with a message in `reason`.
  static std::unique_ptr<SimulatedDevice> open(const SimulatedDeviceOptions& options, std::string* reason);
  ~SimulatedDevice();

  SimulatedDevice(const SimulatedDevice&) = delete;
  SimulatedDevice& operator=(const SimulatedDevice&) = delete;

  const Driver& driver() const;
  const SimulatedDeviceControl& control() const { return *control_; }

 private:
  SimulatedDevice();

  struct Loaded;
  std::unique_ptr<Loaded> loaded_;
  const SimulatedDeviceControl* control_ = nullptr;
};

}  // namespace thermocline
