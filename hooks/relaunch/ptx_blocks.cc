// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/ptx_blocks.h"

namespace thermocline {

PtxBlocks::PtxBlocks(const PtxKernel& kernel) : block_of_(kernel.instructions.size() + 1) {
  const std::size_t count = kernel.instructions.size();
  std::vector<bool> begins(count + 1, false);
  begins[0] = true;
  for (std::size_t i = 0; i < count; ++i) {
    const PtxInstruction& one = kernel.instructions[i];
    if (one.root == "bra" && one.target >= 0) begins[static_cast<std::size_t>(one.target)] = true;
    if (one.root == "bra" || ends_kernel(one)) begins[i + 1] = true;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (begins[i]) begins_.push_back(i);
    block_of_[i] = begins_.size() - 1;
  }
  block_of_[count] = begins_.size();
  begins_.push_back(count);
}

}  // namespace thermocline
