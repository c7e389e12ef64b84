// SPDX-License-Identifier: Apache-2.0
// How the simulated driver violates the assumptions about drivers (docs/driver_assumptions.md). Read from one text,
// "queue=1000,unmap=waits,alias=off"; kSwitches in driver_switches.cc is the table of switches, docs/faults.md lists
// them for users.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/core/types.h"
#include "simulator/faults/plan.h"

namespace simulator {

// The effect of a second mapping of a handle: it shows the same memory; it is refused; it shows other memory.
enum class Alias : std::uint8_t { kOn, kOff, kApart };

struct DriverSwitches {
  std::optional<std::uint64_t> queue;  // operations that a stream holds before a call waits; 0: no limit
  std::optional<Bytes> lazy_load;      // device memory that a kernel takes at its first launch
  Alias alias = Alias::kOn;
  bool map_waits = false, unmap_waits = false;     // these calls wait for all submitted work
  bool unmap_one = false, access_one = false;      // a call that covers several mappings is refused
  bool remap_forgets = false;                      // memory that is not mapped anywhere loses its contents
  bool host_free_returns = false;                  // freeing pinned memory does not wait for its users
  Bytes handle_bytes = 0;                          // device memory that each handle takes in addition to its size
  std::optional<std::uint64_t> handles;            // most handles
  std::optional<Bytes> pinned;                     // most pinned memory, handles not counted
  std::vector<void (*)(FaultPlan&)> restrictions;  // applied to the fault plan
  std::optional<int> version;
  std::optional<Bytes> granularity;
  std::optional<unsigned> address_bits;

  // Applies the switches that a fault plan can express, too; they win.
  void add_to(FaultPlan* plan) const;
};

// Returns an error message of one line, or empty. `out` is unchanged on error.
std::string read_driver_switches(std::string_view text, DriverSwitches* out);

}  // namespace simulator
