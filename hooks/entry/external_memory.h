// SPDX-License-Identifier: Apache-2.0
// Physical memory that the program maps itself. It returns to the device when no handle and no mapping refers to it any
// more.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "driver/units.h"

namespace thermocline {

// Not thread-safe. Handles that were not created in this process (imported ones) are ignored.
class ExternalMemory {
 public:
  void created(std::uint64_t handle, Bytes bytes);
  // One more reference to a handle, from cuMemRetainAllocationHandle.
  void retained(std::uint64_t handle);
  void mapped(DeviceAddress at, Bytes bytes, std::uint64_t handle);
  // Both return how many bytes have returned to the device.
  Bytes released(std::uint64_t handle);
  Bytes unmapped(DeviceAddress at, Bytes bytes);

  Bytes held_bytes() const { return held_; }
  // Checks that held_bytes() is the sum of all known allocations, and that each of these has a reference.
  void validate() const;

 private:
  struct Allocation {
    Bytes bytes = 0;
    std::uint64_t handles = 0;
    std::uint64_t mappings = 0;
  };
  struct Mapping {
    Bytes bytes = 0;
    std::uint64_t allocation = 0;
  };
  Bytes drop_if_unused(std::uint64_t allocation);

  // A handle's value may be reused while a mapping keeps its old memory, so allocations have numbers of their own.
  std::unordered_map<std::uint64_t, std::uint64_t> handles_;
  std::unordered_map<std::uint64_t, Allocation> allocations_;
  std::map<DeviceAddress, Mapping> mappings_;
  std::uint64_t next_ = 0;
  Bytes held_ = 0;
};

}  // namespace thermocline
