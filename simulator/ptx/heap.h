// SPDX-License-Identifier: Apache-2.0
// Memory that kernels allocate: places in a region that the driver lends, which live until they are freed by any
// kernel, as the CUDA C++ Programming Guide has it ("Dynamic Global Memory Allocation and Operations").
//
// Invariant: free and used ranges lie side by side, without a gap; no two free ones are neighbours.
#pragma once

#include <cstdint>
#include <map>

#include "simulator/ptx/interface.h"

namespace simulator::ptx {

class Heap {
 public:
  Heap(std::uint64_t address, std::uint64_t bytes);

  // 16-byte aligned; 0: no room. The lowest range that is large enough.
  std::uint64_t allocate(std::uint64_t bytes);
  bool free(std::uint64_t at);

 private:
  std::map<std::uint64_t, std::uint64_t> free_, used_;  // bytes by address
};

// Of the launch's region. A region of another generation is another one, also where its address is the same.
Heap& heap_of(const Launch& launch);

}  // namespace simulator::ptx
