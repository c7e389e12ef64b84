// SPDX-License-Identifier: Apache-2.0
// Physical memory: runs of 2 MiB pages. Runs on a device count against its capacity, runs on the host do not. A run
// lives as long as it has a handle or a mapping.
//
// Page numbers are positions in the backing store (file offsets, tag pages), not a scarce resource: capacity is only a
// count. A run is contiguous, so a freed run is reused only for runs of the same length; the numbers in use never
// exceed the sum of the peaks of all lengths.
#pragma once

#include <cuda.h>

#include <array>
#include <functional>
#include <unordered_map>
#include <vector>

#include "simulator/core/types.h"

namespace simulator {

struct PageRun {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  Bytes bytes() const { return count * kPageBytes; }
};

class PhysicalMemory {
 public:
  // `discard` is called for every run that is no longer in use: its contents become zero. `capacity`: of each device;
  // `others`: the part of it that other processes hold. `handle_bytes`: device memory that each run
  // takes in addition to its pages; `handles`: limit of runs.
  PhysicalMemory(Bytes capacity, Bytes others, std::function<void(PageRun)> discard, Bytes handle_bytes = 0,
                 std::uint64_t handles = ~std::uint64_t{0});

  CUresult create(Bytes bytes, PhysicalId* out, PhysicalPlace place = PhysicalPlace::kDevice, DeviceId device = 0);
  CUresult retain(PhysicalId id);
  CUresult release(PhysicalId id);
  // nullptr: no such handle, or it has been released completely.
  const PageRun* find(PhysicalId id) const;
  bool exists(PhysicalId id) const { return runs_.count(id) != 0; }  // has a handle or a mapping

  DeviceId device(PhysicalId id) const { return runs_.at(id).device; }
  bool on_host(PhysicalId id) const { return runs_.at(id).place == PhysicalPlace::kHost; }

  bool is_mapped(PhysicalId id) const {
    const auto run = runs_.find(id);
    return run != runs_.end() && run->second.mappings > 0;
  }

  void mapped(PhysicalId id);
  void unmapped(PhysicalId id);

  Bytes capacity() const { return capacity_; }
  Bytes available(DeviceId device) const { return capacity_ - others_ - used_of_[device]; }
  Bytes used() const { return used_; }
  Bytes peak() const { return peak_; }
  std::uint64_t creates() const { return next_ - 1; }

 private:
  struct Run {
    PageRun pages;
    std::uint32_t handles = 0;
    std::uint32_t mappings = 0;
    PhysicalPlace place = PhysicalPlace::kDevice;
    DeviceId device = 0;
  };
  using Runs = std::unordered_map<PhysicalId, Run>;  // never iterated, so its order does not matter

  void drop_if_unused(Runs::iterator run);

  const Bytes capacity_, others_, handle_bytes_;
  const std::uint64_t most_handles_;
  const std::function<void(PageRun)> discard_;
  Runs runs_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> free_;  // by length
  std::uint32_t next_page_ = 0;
  PhysicalId next_ = 1;
  std::array<Bytes, kMostDevices> used_of_{};
  Bytes used_ = 0;  // of all devices
  Bytes peak_ = 0;
};

}  // namespace simulator
