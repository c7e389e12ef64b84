// SPDX-License-Identifier: Apache-2.0
#include "offload/recompute/segment_schedules.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "offload/recompute/forward_pass.h"

namespace thermocline {

std::vector<Schedule> SqrtSchedules::schedules(const Profile& profile, const Lineage& lineage, Bytes /*limit*/) const {
  const ForwardPass pass(profile, lineage);
  const double root = std::sqrt(static_cast<double>(profile.places()) / 2);
  std::vector<Schedule> all;
  for (const double factor : {0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0}) {
    const auto segments = static_cast<std::uint64_t>(std::max(2.0, factor * root));
    std::vector<std::uint32_t> ends;
    for (std::uint64_t i = 1; i < segments; ++i) {
      const std::uint64_t begin = (i * (pass.forward_end + 1) + segments - 1) / segments;
      if (begin > 0) ends.push_back(static_cast<std::uint32_t>(begin - 1));
    }
    all.push_back(recompute_segments(pass, lineage, ends));
    // This needs less room: segments are recomputed in small steps; a backward pass takes as long as three segments.
    Schedule by_need = recompute_segments(pass, lineage, ends, false);
    by_need.recomputations.clear();
    by_need.kept_for = static_cast<std::uint32_t>(3 * profile.places() / segments);
    all.push_back(std::move(by_need));
  }
  return all;
}

std::vector<Schedule> CheckpointAllSchedules::schedules(const Profile& profile, const Lineage& lineage,
                                                        Bytes /*limit*/) const {
  const ForwardPass pass(profile, lineage);
  return {recompute_segments(pass, lineage, pass.narrow_points(profile))};
}

}  // namespace thermocline
