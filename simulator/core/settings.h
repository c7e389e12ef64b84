// SPDX-License-Identifier: Apache-2.0
// Settings of the simulated device: key and value as text, from control.h or from THERMOCLINE_SIMULATE_<KEY>. One table
// contains all keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "simulator/core/driver_switches.h"
#include "simulator/core/types.h"
#include "simulator/faults/plan.h"
#include "simulator/profile.h"

namespace simulator {

// kStrict: calls that wait although that is not documented count as not waiting.
enum class Checking : std::uint8_t { kOff, kOn, kStrict };

struct Settings {
  const Profile* profile = find_profile("reference");
  DeviceId devices = 1;  // number of devices, all with this profile
  bool tagged = false;
  std::optional<std::uint64_t> seed;  // unset: order of time
  bool progress = true;
  double link_scale = 1;
  std::optional<Bytes> memory_bytes;
  Bytes others = 0;        // part of the memory that other processes hold all the time
  Bytes lazy_loading = 0;  // device memory that a kernel takes at its first launch; 0: modules are loaded as a whole
  bool made_up_kernels = false;  // kernels without a host implementation mix what they name, whatever their code is
  // Most steps of a thread in one loop, before the loop is considered endless.
  std::uint64_t kernel_steps = std::uint64_t{1} << 34;
  unsigned cores = 0;  // of the host, that may run blocks of a kernel at the same time; 0: all that the process may use
  bool tensor_rate = false;
  double kernel_low = 0,
         kernel_high = 0;  // duration of undeclared kernels in microseconds, log-uniform; 0: according to their buffers
  bool stats = false;
  std::uint64_t queue_limit = 1024;  // operations of a stream that the host may be ahead by; 0: unlimited
  double blocked_timeout = 10;       // seconds that a host waits for a blocked operation while no thread makes a call
  Checking check = Checking::kOff;
  FaultPlan faults;
  DriverSwitches driver;
  std::string timeline;  // a file; empty: none

  Bytes capacity() const { return memory_bytes.value_or(profile->memory_bytes.value); }

  // Empty, or an error message; then nothing has changed.
  std::string set(std::string_view key, std::string_view value);
  // Sets what the environment names. Returns the first error, or empty.
  std::string set_from_environment();
  // Applies `driver` to the other settings. Called after all have been set.
  void apply_driver();
};

}  // namespace simulator
