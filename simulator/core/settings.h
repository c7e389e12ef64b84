// SPDX-License-Identifier: Apache-2.0
// Settings of the simulated device: key and value as text, from control.h or from THERMOCLINE_SIMULATE_<KEY>. One table
// knows all keys.
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

// kStrict: calls that wait without documenting it count as not waiting.
enum class Checking : std::uint8_t { kOff, kOn, kStrict };

struct Settings {
  const Profile* profile = find_profile("reference");
  DeviceId devices = 1;  // all of this profile
  bool tagged = false;
  std::optional<std::uint64_t> seed;  // none: order of time
  bool progress = true;
  double link_scale = 1;
  std::optional<Bytes> memory_bytes;
  Bytes others = 0;        // of it, what other processes hold all the time
  Bytes lazy_loading = 0;  // device memory that a kernel takes when it is first launched; 0: modules are loaded whole
  bool made_up_kernels = false;  // those without a host implementation mix what they name, whatever their code is
  std::uint64_t kernel_steps = std::uint64_t{1} << 34;  // of a thread in one loop, before that is taken for endless
  bool tensor_rate = false;
  double kernel_low = 0,
         kernel_high = 0;  // microseconds that undeclared kernels take, log-uniform; 0: by their buffers
  bool stats = false;
  std::uint64_t queue_limit = 1024;  // operations of a stream that a host may be ahead by; 0: any number
  double patience = 10;              // seconds that a host waits for what stands while nobody calls anything
  Checking check = Checking::kOff;
  FaultPlan faults;
  DriverSwitches driver;
  std::string timeline;  // a file; empty: none

  Bytes capacity() const { return memory_bytes.value_or(profile->memory_bytes.value); }

  // Empty, or a sentence that says what is wrong; then nothing has changed.
  std::string set(std::string_view key, std::string_view value);
  // Sets what the environment names. The first thing wrong, or empty.
  std::string set_from_environment();
  // Once all is set: what `driver` says about others holds.
  void settle();
};

}  // namespace simulator
