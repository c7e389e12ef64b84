// SPDX-License-Identifier: Apache-2.0
// Checkpointing by segments of the forward pass.
#pragma once

#include "offload/recompute/schedule.h"

namespace thermocline {

// Chen et al., Training deep nets with sublinear memory cost, 2016: equal segments, several numbers of them around the
// square root of the number of operations.
class SqrtSchedules : public ScheduleSource {
 public:
  std::vector<Schedule> schedules(const Profile& profile, const Lineage& lineage, Bytes limit) const override;
};

// Checkpointing of every module, as frameworks do it: the inputs of each module are kept, and the rest is recomputed.
// Traces name no modules: the narrow points of the forward pass stand for their inputs (forward_pass.h).
class CheckpointAllSchedules : public ScheduleSource {
 public:
  std::vector<Schedule> schedules(const Profile& profile, const Lineage& lineage, Bytes limit) const override;
};

}  // namespace thermocline
