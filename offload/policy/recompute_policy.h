// SPDX-License-Identifier: Apache-2.0
// What a policy is asked whose plans drop contents and recompute them. The engine does both (engine/recompute.cc): it
// asks before an operation what is to run again, and drops what the policy tells it to.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "offload/options.h"
#include "offload/recompute/versions.h"
#include "offload/residency/block_state.h"

namespace thermocline {

class RecomputePolicy {
 public:
  virtual ~RecomputePolicy() = default;
  // `versions`: what can be recomputed; outlives the last operation. `drop`: for EvictionPolicy::submitted(): the
  // contents of the block are dropped, if they can be recomputed.
  virtual void recompute_with(const Versions& versions, RecomputePlans plans, const ScheduleSource* schedules,
                              std::function<void(BlockState&)> drop) = 0;
  // Of the operation that has arrived: as many operations run again before it as planned.
  virtual std::uint32_t planned_runs() const = 0;
  // The n-th of these, from 0, has been submitted, or is not needed.
  virtual void ran_again(std::uint32_t n) = 0;
  // The blocks whose contents these operations make.
  virtual std::vector<const BlockState*> recomputed() const = 0;
  // From now on not all accesses are known, or it is as if they were not (gains_by_trust).
  virtual void distrusts() = 0;
  // Pages may change hands at once while all accesses are known. False: that gains nothing now, because nothing is
  // dropped, and what stays was chosen as if they did not.
  virtual bool gains_by_trust() const = 0;
};

}  // namespace thermocline
