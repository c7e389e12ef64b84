// SPDX-License-Identifier: Apache-2.0
// The last step of a trace as the planners see it: a profile and a lineage (offload/).
#pragma once

#include <cstdint>
#include <vector>

#include "offload/planning/profile.h"
#include "offload/recompute/lineage.h"
#include "trace/step_plan.h"

namespace thermocline {

struct StepProfile {
  Profile profile;
  Lineage lineage;
  std::vector<std::uint32_t> buffers;    // by buffer of the profile: its index in the trace
  std::vector<std::uint32_t> operators;  // by place: index in the trace

  StepProfile(const Trace& trace, const DeviceRates& rates, const StepTerms& terms);

  // By place, with everything on the device.
  std::vector<Bytes> live_bytes() const;
};

}  // namespace thermocline
