// SPDX-License-Identifier: Apache-2.0
// Memory of one device as cuMemAlloc returns it, and which devices may access it: mapped, accessible, and 512-byte
// aligned. Allocations below 1 MiB share pages with others of their size class (four classes per octave); larger ones
// have whole pages of their own.
//
// No allocation begins directly at the end of another one: a pointer one past the end, which kernels take, must not
// name a neighbor, because then what a kernel mixes would depend on the placement of buffers.
#pragma once

#include <cuda.h>

#include <map>
#include <optional>
#include <vector>

#include "simulator/core/memory/address_space.h"
#include "simulator/core/memory/physical.h"

namespace simulator {

class DeviceHeap {
 public:
  // The device itself may access everything.
  DeviceHeap(AddressSpace& addresses, PhysicalMemory& physical, DeviceId device)
      : addresses_(addresses),
        physical_(physical),
        device_(device),
        rights_(Rights().with(device, Access::kReadWrite)) {}

  DeviceId device() const { return device_; }

  // `new_pages`: the number of pages that were created, 0 if existing pages were enough. An allocation with pages of
  // its own is accessible to every device.
  CUresult allocate(Bytes bytes, bool own_pages, Address* out, Bytes* new_pages);
  // Applies to existing and future allocations.
  void set_access(DeviceId device, Access access);
  Access access(DeviceId device) const { return rights_.of(device); }
  CUresult free(Address at);
  std::optional<Span> find(Address at) const;

 private:
  struct Allocation {
    Bytes bytes = 0;
    Bytes slot = 0;    // size of its class; 0: it has whole pages
    Address page = 0;  // beginning of its page or pages
    bool is_for_all = false;
  };
  struct SharedPage {
    std::vector<Address> free;  // last in, first out
    std::uint32_t used = 0;
  };

  CUresult take_pages(Bytes bytes, Rights rights, Address* out);
  void give_pages(Address at, Bytes bytes);  // of an allocation of `bytes`, a whole number of pages
  CUresult allocate_shared(Bytes bytes, Bytes slot, Address* out, Bytes* new_pages);

  AddressSpace& addresses_;
  PhysicalMemory& physical_;
  const DeviceId device_;
  Rights rights_;
  std::map<Address, Allocation> allocations_;
  std::map<Address, SharedPage> shared_;
  std::map<Bytes, std::vector<Address>> open_;  // pages with room, by slot size
};

}  // namespace simulator
