// SPDX-License-Identifier: Apache-2.0
#include "hooks/entry/external_memory.h"

#include "driver/check.h"

namespace thermocline {

void ExternalMemory::created(std::uint64_t handle, Bytes bytes) {
  const std::uint64_t number = next_++;
  handles_[handle] = number;
  allocations_[number] = Allocation{.bytes = bytes, .handles = 1};
  held_ += bytes;
}

void ExternalMemory::retained(std::uint64_t handle) {
  if (const auto known = handles_.find(handle); known != handles_.end()) ++allocations_.at(known->second).handles;
}

void ExternalMemory::mapped(DeviceAddress at, Bytes bytes, std::uint64_t handle) {
  const auto known = handles_.find(handle);
  if (known == handles_.end()) return;
  ++allocations_.at(known->second).mappings;
  mappings_[at] = Mapping{bytes, known->second};
}

Bytes ExternalMemory::drop_if_unused(std::uint64_t number) {
  const auto found = allocations_.find(number);
  if (found->second.handles > 0 || found->second.mappings > 0) return 0;
  const Bytes bytes = found->second.bytes;
  allocations_.erase(found);
  held_ -= bytes;
  return bytes;
}

Bytes ExternalMemory::released(std::uint64_t handle) {
  const auto known = handles_.find(handle);
  if (known == handles_.end()) return 0;
  const std::uint64_t number = known->second;
  if (--allocations_.at(number).handles == 0) handles_.erase(known);
  return drop_if_unused(number);
}

Bytes ExternalMemory::unmapped(DeviceAddress at, Bytes bytes) {
  Bytes given_back = 0;
  for (auto it = mappings_.lower_bound(at); it != mappings_.end() && it->first < at + bytes;) {
    const std::uint64_t number = it->second.allocation;
    it = mappings_.erase(it);
    --allocations_.at(number).mappings;
    given_back += drop_if_unused(number);
  }
  return given_back;
}

void ExternalMemory::validate() const {
  Bytes sum = 0;
  for (const auto& [number, allocation] : allocations_) {
    THERMOCLINE_CHECK(allocation.handles + allocation.mappings > 0, "memory that is held is referred to");
    sum += allocation.bytes;
  }
  THERMOCLINE_CHECK(sum == held_, "the bytes held are those of the allocations");
}

}  // namespace thermocline
