// SPDX-License-Identifier: Apache-2.0
// Memory of one device as cuMemAlloc gives it, and which devices may access it: addresses with pages and access behind
// them, 512-byte aligned. Below 1 MiB, allocations of one size class (four classes an octave) share pages; larger ones
// own whole pages.
//
// The address behind an allocation never begins another one: a pointer one past the end, which kernels take, must not
// name a neighbour, or what a kernel mixes would depend on where things lie.
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
  // The device itself may access all of it.
  DeviceHeap(AddressSpace& addresses, PhysicalMemory& physical, DeviceId device)
      : addresses_(addresses),
        physical_(physical),
        device_(device),
        rights_(Rights().with(device, Access::kReadWrite)) {}

  DeviceId device() const { return device_; }

  // `new_pages` tells how many pages were created for it, 0 when it fitted into what was there. With pages of its own
  // it is every device's to access.
  CUresult allocate(Bytes bytes, bool own_pages, Address* out, Bytes* new_pages);
  // Of what is there, and of what will be.
  void set_access(DeviceId device, Access access);
  Access access(DeviceId device) const { return rights_.of(device); }
  CUresult free(Address at);
  std::optional<Span> find(Address at) const;

 private:
  struct Allocation {
    Bytes bytes = 0;
    Bytes slot = 0;    // size of its class; 0: whole pages
    Address page = 0;  // where its page begins, or its pages
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
  std::map<Bytes, std::vector<Address>> open_;  // pages with room, by size of slot
};

}  // namespace simulator
