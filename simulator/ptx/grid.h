// SPDX-License-Identifier: Apache-2.0
// Runs all blocks of a launch: in turns if they may wait for one another, else as independent_blocks.h says.
#pragma once

#include "simulator/ptx/block.h"
#include "simulator/ptx/independent_blocks.h"

namespace simulator::ptx {

// Puts the outcome and the printed text into `grid`.
void run_grid(GridRun& grid, StackPools& stacks);

// The shape of the launch's clusters; 1 in each dimension if it has none.
void cluster_shape(const Kernel& kernel, const Launch& launch, std::uint32_t (&shape)[3]);

}  // namespace simulator::ptx
