// SPDX-License-Identifier: Apache-2.0
// Whether the threads of a block exchange values through shared memory and shuffles in an order that nothing but the
// launch decides. Found by running all threads of a block, without what is in memory.
//
// Known are numbers that are made of the thread's place in its block, the shape of the launch and its parameters; what
// comes from memory, from another thread, or from the block's place is not. Each branch that leads to a shared access,
// a barrier or a shuffle has to be known, and so have the places of these accesses: then each block does the same,
// whatever is in memory. It holds if all threads come to the same barriers, if between two of these no thread accesses
// what another one writes, if what is read has been written before, and if the lanes of a warp come to the same
// shuffles. By induction over barriers and shuffles the values are then the same each time.
#pragma once

#include <cstdint>
#include <vector>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/relaunch/ptx_blocks.h"
#include "hooks/relaunch/uniform.h"

namespace thermocline {

// Shared accesses, barriers and shuffles.
bool exchanges_values(const PtxInstruction& one);

// Of one kernel. Thread-safe.
class BlockRuns {
 public:
  BlockRuns(const PtxKernel& kernel, const PtxBlocks& blocks);

  // False: it is not so, or not known.
  bool hold_for(const LaunchShape& shape, void* const* parameters) const;

 private:
  class Run;

  // What a branch leads to until all its ways have met again.
  struct Region {
    std::size_t end = 0;  // the block in which they meet
    bool exchanges = false, comes_around = false;
    std::vector<int> written;  // registers
  };
  // What was found, of a shape and of the parameters on which it depends.
  struct Found {
    LaunchShape shape;
    std::uint64_t loads = 0;  // a bit for each of parameter_loads_
    std::vector<std::uint64_t> values;
    bool holds = false;
  };

  void find_regions();
  Region region_of(std::size_t block, std::size_t end) const;
  std::vector<std::size_t> successors(std::size_t block) const;
  // What the instruction loads.
  std::uint64_t parameter_at(std::size_t load, void* const* parameters) const;
  // Of the parameters that a bit stands for.
  std::vector<std::uint64_t> values_of(std::uint64_t loads, void* const* parameters) const;

  const PtxKernel& kernel_;
  const PtxBlocks& blocks_;
  std::vector<Region> regions_;               // by block
  std::vector<std::size_t> parameter_loads_;  // instructions
  std::vector<std::uint64_t> load_bits_;      // by instruction; 0: it is no load of a parameter that is followed
  mutable Mutex mutex_{"runs of a block", lock_level::kLeaf};
  mutable std::vector<Found> found_ THERMOCLINE_GUARDED_BY(mutex_);
  mutable std::uint64_t steps_left_ THERMOCLINE_GUARDED_BY(mutex_);
};

}  // namespace thermocline
