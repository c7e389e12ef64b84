// SPDX-License-Identifier: Apache-2.0
#include "trace/comparison_policies.h"

#include "offload/recompute/recurrent_schedules.h"
#include "offload/recompute/segment_schedules.h"
#include "trace/checkmate.h"

namespace thermocline {

std::span<const ComparisonPolicy> comparison_policies() {
  static const SqrtSchedules sqrt;
  static const CheckpointAllSchedules checkpoint_all;
  static const CheckmateSchedules checkmate;
  static const RecurrentSchedules gruslys;
  static const ComparisonPolicy all[] = {
      {"sqrt", "the forward pass in equal segments, recomputed whole", &sqrt},
      {"checkpoint-all", "every narrow point of the forward pass is kept, what is between is recomputed",
       &checkpoint_all},
      {"checkmate", "what is kept until when, by linear programming and rounding", &checkmate},
      {"gruslys", "recurrent nets: which states to keep, by dynamic programming", &gruslys},
  };
  return all;
}

}  // namespace thermocline
