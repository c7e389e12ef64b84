// SPDX-License-Identifier: Apache-2.0
#include "offload/recompute/lineage.h"

#include <algorithm>

namespace thermocline {

VersionId Lineage::begin_version(std::uint32_t buffer, std::uint32_t producer) {
  versions.push_back({.buffer = buffer, .producer = producer});
  return buffers[buffer].current = versions.size() - 1;
}

void Lineage::add(bool repeatable, std::span<const Access> accesses) {
  const auto place = static_cast<std::uint32_t>(places());
  for (const Access& access : accesses) {
    VersionId before = buffers[access.buffer].current;
    if (before == kNoVersion && access.reads) before = begin_version(access.buffer, LineageVersion::kBefore);
    VersionedOperand operand{.reads = access.reads,
                             .writes = access.writes,
                             .in_place = access.in_place,
                             .read = access.reads ? before : kNoVersion};
    if (access.writes) {
      if (before != kNoVersion) versions[before].last = place;
      operand.written = begin_version(access.buffer, place);
    }
    operands_.push_back(operand);
    operand_buffers_.push_back(access.buffer);
  }
  first_.push_back(static_cast<std::uint32_t>(operands_.size()));
  repeatable_.push_back(repeatable);
}

bool Lineage::is_current_at(VersionId version, std::uint32_t place) const {
  const LineageVersion& v = versions[version];
  const bool made = v.producer == LineageVersion::kBefore || v.producer < place;
  return made && place <= std::min(v.last, buffers[v.buffer].death);
}

}  // namespace thermocline
