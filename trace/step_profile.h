// SPDX-License-Identifier: Apache-2.0
// The last step of a trace in the form that planners use: a profile and a lineage (offload/).
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

  // Live bytes by place, with everything on the device.
  std::vector<Bytes> live_bytes() const;
};

}  // namespace thermocline
