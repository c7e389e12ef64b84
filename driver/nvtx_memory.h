// SPDX-License-Identifier: Apache-2.0
// Describes the reservation to tools through NVTX's memory extension: the reservation is a heap (a sub-allocator),
// every buffer a region in it. So a sanitizer, or the simulated device, sees the program's buffers instead of the
// library's mappings.
//
// Created only on request. NVTX then looks for a tool once (NVTX_INJECTION64_PATH); without a tool every call costs a
// test of one pointer. As thread-safe as the tool; the owner makes the calls in the order in which memory changes
// owners.
#pragma once

#include "driver/units.h"

namespace thermocline {

class NvtxMemory {
 public:
  // `name` is what tools show; a string literal.
  NvtxMemory(const char* name, DeviceAddress begin, Bytes bytes);
  // Unregisters the heap and all regions that remain in it.
  ~NvtxMemory();
  NvtxMemory(const NvtxMemory&) = delete;
  NvtxMemory& operator=(const NvtxMemory&) = delete;

  void add(DeviceAddress at, Bytes bytes);
  // `at`: the address that was passed to add.
  void remove(DeviceAddress at);

 private:
  void* domain_;
  void* heap_;
};

}  // namespace thermocline
