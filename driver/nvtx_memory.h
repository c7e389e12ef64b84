// SPDX-License-Identifier: Apache-2.0
// Tells tools what lies where in our reservation, through NVTX's memory extension: the reservation is a heap (a
// sub-allocator), every buffer a region in it. With it a sanitizer or the simulated device sees the program's buffers
// instead of our mappings.
//
// Made only on request; NVTX then looks for a tool once (NVTX_INJECTION64_PATH), and without one every call is a test
// of one pointer. Thread-safe as the tool is; the owner calls in the order in which the memory changes hands.
#pragma once

#include "driver/units.h"

namespace thermocline {

class NvtxMemory {
 public:
  // `name`, a literal, is what tools show.
  NvtxMemory(const char* name, DeviceAddress begin, Bytes bytes);
  // Unregisters the heap, and with it the regions that are left.
  ~NvtxMemory();
  NvtxMemory(const NvtxMemory&) = delete;
  NvtxMemory& operator=(const NvtxMemory&) = delete;

  void add(DeviceAddress at, Bytes bytes);
  // `at` as given to add.
  void remove(DeviceAddress at);

 private:
  void* domain_;
  void* heap_;
};

}  // namespace thermocline
