// SPDX-License-Identifier: Apache-2.0
// Physical memory that the program maps itself. The device has it back when no handle and no mapping refers to it any
// more; whichever ends last.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "driver/units.h"

namespace thermocline {

// Not thread-safe. Handles that were never created here (imported ones) are nobody's concern: they are ignored.
class ExternalMemory {
 public:
  void created(std::uint64_t handle, Bytes bytes);
  // One more reference to a handle, by cuMemRetainAllocationHandle.
  void retained(std::uint64_t handle);
  void mapped(DeviceAddress at, Bytes bytes, std::uint64_t handle);
  // Both answer how many bytes the device has back.
  Bytes released(std::uint64_t handle);
  Bytes unmapped(DeviceAddress at, Bytes bytes);

  Bytes held_bytes() const { return held_; }
  // held_bytes() is the sum of what is known, and each of it is referred to; checks that.
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

  // A handle's value may come again while a mapping keeps its old memory, so allocations have numbers of their own.
  std::unordered_map<std::uint64_t, std::uint64_t> handles_;
  std::unordered_map<std::uint64_t, Allocation> allocations_;
  std::map<DeviceAddress, Mapping> mappings_;
  std::uint64_t next_ = 0;
  Bytes held_ = 0;
};

}  // namespace thermocline
