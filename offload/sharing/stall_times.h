// SPDX-License-Identifier: Apache-2.0
// How long a program's operations have waited for the library (stall_meter.h).
#pragma once

#include <cstdint>

namespace thermocline {

// Sums since the engine began, in time of the device. Operations are measured while something is not on the device.
struct StallTimes {
  std::uint64_t stalled_ns = 0;     // measured operations waited for copies, or for room
  std::uint64_t computed_ns = 0;    // ... ran
  std::uint64_t measured_ns = 0;    // from one to the next
  std::uint64_t copied_out_ns = 0;  // bytes copied, at the link's measured rate
  std::uint64_t copied_in_ns = 0;
};

}  // namespace thermocline
