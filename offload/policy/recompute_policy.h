// SPDX-License-Identifier: Apache-2.0
// The interface of policies whose plans drop contents and recompute them. The engine does both (engine/recompute.cc):
// before an operation it asks which operations are to run again, and it drops contents when the policy tells it to.
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
  // `versions`: what can be recomputed; outlives the last operation. `drop`: to be called from
  // EvictionPolicy::submitted(); drops the contents of the block if they can be recomputed.
  virtual void recompute_with(const Versions& versions, RecomputePlans plans, const ScheduleSource* schedules,
                              std::function<void(BlockState&)> drop) = 0;
  // How many operations are planned to run again before the operation that has arrived.
  virtual std::uint32_t planned_runs() const = 0;
  // The n-th of these operations (from 0) has been submitted again, or is not needed.
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
