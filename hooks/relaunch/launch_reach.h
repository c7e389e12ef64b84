// SPDX-License-Identifier: Apache-2.0
// Through which words of its parameters a launch never accesses memory below the address in the word, remembered for the
// latest launches: a program repeats them. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/relaunch/ptx_accesses.h"
#include "hooks/relaunch/ptx_blocks.h"
#include "hooks/relaunch/uniform.h"

namespace thermocline {

class LaunchReach {
 public:
  // All must outlive it.
  LaunchReach(const PtxKernel& kernel, const PtxAccesses& accesses, const PtxBlocks& blocks)
      : kernel_(kernel), accesses_(accesses), blocks_(blocks) {}

  // `parameters`: the address of each parameter.
  bool is_never_below(std::size_t word, const LaunchShape& shape, void* const* parameters) const;

 private:
  struct Launch {
    LaunchShape shape;
    std::vector<unsigned char> parameters;  // without addresses: nothing depends on them
    std::uint64_t never_below = 0;          // a bit for each word
  };
  static constexpr std::size_t kMostLaunches = 16;

  std::vector<unsigned char> without_addresses(void* const* parameters) const;
  std::uint64_t find(const LaunchShape& shape, void* const* parameters) const;

  const PtxKernel& kernel_;
  const PtxAccesses& accesses_;
  const PtxBlocks& blocks_;
  mutable Mutex mutex_{"reach of launches", lock_level::kLeaf};
  mutable std::vector<Launch> latest_ THERMOCLINE_GUARDED_BY(mutex_);
  mutable std::size_t next_ THERMOCLINE_GUARDED_BY(mutex_) = 0;  // the oldest of latest_
};

}  // namespace thermocline
