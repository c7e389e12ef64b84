// SPDX-License-Identifier: Apache-2.0
// Published policies of recomputation by name, to compare the joint plan with.
#pragma once

#include <span>
#include <string_view>

#include "offload/recompute/schedule.h"

namespace thermocline {

struct ComparisonPolicy {
  std::string_view name;
  std::string_view description;
  const ScheduleSource* source;
};

std::span<const ComparisonPolicy> comparison_policies();

}  // namespace thermocline
