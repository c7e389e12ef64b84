// SPDX-License-Identifier: Apache-2.0
// Iterations made up operation by operation, as planners see them.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/planning/profile.h"
#include "offload/recompute/lineage.h"

namespace thermocline::test {

inline constexpr Bytes kSize = 64 * kMiB;

struct MadeUpIteration {
  Profile profile;
  Lineage lineage;

  std::uint32_t buffer(bool always = false) {
    const auto name = static_cast<std::uint32_t>(profile.buffers.size());
    ProfiledBuffer& in_profile = profile.buffers.emplace_back();
    in_profile.bytes = in_profile.contents = kSize;
    in_profile.always = always;
    LineageBuffer& in_lineage = lineage.buffers.emplace_back();
    in_lineage.name = name;
    in_lineage.bytes = kSize;
    return name;
  }
  void add(std::uint64_t nanoseconds, const std::vector<Lineage::Access>& accesses) {
    const auto place = static_cast<std::uint32_t>(profile.places());
    profile.first_operand.push_back(static_cast<std::uint32_t>(profile.operand_buffers.size()));
    profile.nanoseconds.push_back(nanoseconds);
    for (const Lineage::Access& access : accesses) {
      profile.operand_buffers.push_back(access.buffer);
      ProfiledBuffer& buffer = profile.buffers[access.buffer];
      if (buffer.uses.empty() && !buffer.always) buffer.birth = place;
      buffer.uses.push_back(place);
      buffer.death = place;
    }
    lineage.add(true, accesses);
  }
  void ends(std::uint32_t buffer) { lineage.buffers[buffer].death = profile.buffers[buffer].death; }
  // After the last operation.
  void finish() {
    profile.first_operand.push_back(static_cast<std::uint32_t>(profile.operand_buffers.size()));
    profile.unplanned_bytes.assign(profile.places(), 0);
  }
};

}  // namespace thermocline::test
