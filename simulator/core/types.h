// SPDX-License-Identifier: Apache-2.0
// Basic types of the simulator's core. Plain integers: the core mirrors the driver API, whose addresses and sizes are
// integers too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simulator {

using Bytes = std::uint64_t;
using Address = std::uint64_t;   // a device address is an address of this process
using Time = std::int64_t;       // virtual nanoseconds since the machine started
using StreamId = std::uint32_t;  // a device's legacy stream always exists, and has the device's number
using EventId = std::uint32_t;
using DeviceId = std::uint8_t;     // a device's ordinal
using PhysicalId = std::uint64_t;  // one creation of physical memory; never 0
enum class PhysicalPlace : std::uint8_t {
  kDevice,
  kHost,
  kElsewhere
};  // kElsewhere: memory of another process, which counts it
// Operations are numbered from 1 in order of submission; 0 is "none", and counts as completed.
using OperationId = std::uint64_t;

// Where a run is: in which memory file of which process. A CUDA IPC handle contains this.
struct FilePlace {
  std::int32_t process = 0;
  std::int32_t file = -1;  // its descriptor there
  std::uint64_t inode = 0;
  Bytes offset = 0;
};

inline constexpr StreamId kLegacyStream = 0;  // of the first device
inline constexpr DeviceId kMostDevices = 8;
inline constexpr Bytes kPageBytes = Bytes{2}
                                    << 20;  // granularity of physical memory and of reservations in every profile

constexpr Bytes round_up(Bytes n, Bytes unit) { return (n + unit - 1) / unit * unit; }
constexpr Bytes round_down(Bytes n, Bytes unit) { return n / unit * unit; }

}  // namespace simulator
