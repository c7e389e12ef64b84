// SPDX-License-Identifier: Apache-2.0
// Runs blocks that do not wait for one another: one after the other, or, if the kernel cannot tell the difference, on
// several threads of the host at the same time. The results, counts and reports are the same, unless two blocks access
// the same bytes without atomic operations and one of them writes.
#pragma once

#include <memory>
#include <vector>

#include "simulator/ptx/block.h"

namespace simulator::ptx {

// The stacks of those threads of the host that run blocks, by thread number; the caller's is 0. Kept between launches.
class StackPools {
 public:
  explicit StackPools(std::size_t bytes) : bytes_(bytes) {}
  Stacks& of(std::size_t worker) {
    while (pools_.size() <= worker) pools_.push_back(std::make_unique<Stacks>(bytes_));
    return *pools_[worker];
  }
  std::size_t bytes() const { return bytes_; }

 private:
  const std::size_t bytes_;
  std::vector<std::unique_ptr<Stacks>> pools_;
};

void run_independent_blocks(GridRun& grid, StackPools& stacks);

}  // namespace simulator::ptx
