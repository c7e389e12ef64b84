// SPDX-License-Identifier: Apache-2.0
// The heap of kernels: allocations in a region that the driver provides, which live until any kernel frees them, as the
// CUDA C++ Programming Guide specifies ("Dynamic Global Memory Allocation and Operations").
//
// Invariant: free and used ranges are contiguous; no two adjacent ranges are free.
#pragma once

#include <cstdint>
#include <map>

#include "simulator/ptx/interface.h"

namespace simulator::ptx {

class Heap {
 public:
  Heap(std::uint64_t address, std::uint64_t bytes);

  // 16-byte aligned; 0: no room. First fit: the lowest range that is large enough.
  std::uint64_t allocate(std::uint64_t bytes);
  bool free(std::uint64_t at);

 private:
  std::map<std::uint64_t, std::uint64_t> free_, used_;  // by address: size in bytes
};

// The heap in the launch's region. A region with another generation is a different one, even at the same address.
Heap& heap_of(const Launch& launch);

}  // namespace simulator::ptx
