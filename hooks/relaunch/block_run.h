// SPDX-License-Identifier: Apache-2.0
// Checks whether the threads of a block exchange values through shared memory and shuffles in an order that only the
// launch determines. To find out, it runs all threads of one block, without the contents of memory.
//
// Known values are those computed from the thread's index in its block, the shape of the launch and its parameters.
// Values from memory, from another thread, or from the block's index are unknown. Each branch that decides about a
// shared access, a barrier or a shuffle must depend on known values, and so must the addresses of these accesses. Then
// each block does the same, whatever is in memory. The check passes if all threads reach the same barriers; between two
// barriers no thread accesses what another thread writes; shared memory is written before it is read; and the lanes of
// a warp reach the same shuffles. By induction over barriers and shuffles, the values are then the same in each run.
#pragma once

#include <cstdint>
#include <vector>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/relaunch/ptx_blocks.h"
#include "hooks/relaunch/uniform.h"

namespace thermocline {

// Whether the instruction is a shared access, a barrier or a shuffle.
bool exchanges_values(const PtxInstruction& one);

// The runs of one kernel. Thread-safe.
class BlockRuns {
 public:
  BlockRuns(const PtxKernel& kernel, const PtxBlocks& blocks);

  // False: the order is not determined by the launch, or that is not known. `used`: gets the parameters on which that
  // depends.
  bool hold_for(const LaunchShape& shape, void* const* parameters, UsedParameters* used) const;

 private:
  class Run;

  // The blocks between a branch and the block in which all its paths have met again.
  struct Region {
    std::size_t end = 0;  // the block in which they meet
    bool exchanges = false, comes_around = false;
    std::vector<int> written;  // registers
  };
  // A result, for one shape and the values of the parameters on which it depends.
  struct Found {
    LaunchShape shape;
    std::uint64_t loads = 0;  // a bit for each of parameter_loads_
    std::vector<std::uint64_t> values;
    bool holds = false;
  };

  void find_regions();
  Region region_of(std::size_t block, std::size_t end) const;
  std::vector<std::size_t> successors(std::size_t block) const;
  // The value that the instruction, a load of a parameter, loads.
  std::uint64_t parameter_at(std::size_t load, void* const* parameters) const;
  // The values of the parameters whose bits are set in `loads`.
  std::vector<std::uint64_t> values_of(std::uint64_t loads, void* const* parameters) const;
  void add_used(std::uint64_t loads, UsedParameters* used) const;

  const PtxKernel& kernel_;
  const PtxBlocks& blocks_;
  std::vector<Region> regions_;               // by block
  std::vector<std::size_t> parameter_loads_;  // instructions
  std::vector<std::uint64_t> load_bits_;      // by instruction; 0: not a load of a parameter that is followed
  mutable Mutex mutex_{"runs of a block", lock_level::kLeaf};
  mutable std::vector<Found> found_ THERMOCLINE_GUARDED_BY(mutex_);
  mutable std::uint64_t steps_left_ THERMOCLINE_GUARDED_BY(mutex_);
};

}  // namespace thermocline
