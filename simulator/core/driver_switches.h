// SPDX-License-Identifier: Apache-2.0
// In what the simulated driver differs from what is assumed of drivers (docs/driver_assumptions.md): one text,
// "queue=1000,unmap=waits,alias=off", one switch for each assumption that can be wrong here. docs/faults.md lists them
// for users; kSwitches in driver_switches.cc is the one table of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/core/types.h"
#include "simulator/faults/plan.h"

namespace simulator {

// A second mapping of a handle that has one: shows the same memory; is refused; shows other memory.
enum class Alias : std::uint8_t { kOn, kOff, kApart };

struct DriverSwitches {
  std::optional<std::uint64_t> queue;  // operations of a stream that a host may be ahead by; 0: any number
  std::optional<Bytes> lazy_load;      // device memory that a kernel takes when it is first launched
  Alias alias = Alias::kOn;
  bool map_waits = false, unmap_waits = false;     // for everything that was submitted
  bool unmap_one = false, access_one = false;      // several mappings in one call are refused
  bool remap_forgets = false;                      // memory that no address leads to loses its contents
  bool host_free_returns = false;                  // without waiting for what may still use the memory
  Bytes handle_bytes = 0;                          // of the device, that the driver takes for each handle
  std::optional<std::uint64_t> handles;            // there can be
  std::optional<Bytes> pinned;                     // there can be, beside handles
  std::vector<void (*)(FaultPlan&)> restrictions;  // what a plan of faults can say, too
  std::optional<int> version;
  std::optional<Bytes> granularity;
  std::optional<unsigned> address_bits;

  // What a plan of faults can say as well; what is set here wins.
  void add_to(FaultPlan* plan) const;
};

// Empty, or what is wrong in one line; then nothing has changed.
std::string read_driver_switches(std::string_view text, DriverSwitches* out);

}  // namespace simulator
