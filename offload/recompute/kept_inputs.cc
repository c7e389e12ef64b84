// SPDX-License-Identifier: Apache-2.0
#include "offload/recompute/kept_inputs.h"

#include "offload/recompute/rewriting.h"

namespace thermocline {

KeptInputs::KeptInputs(const Lineage& lineage) : lineage_(lineage) {
  for (const LineageBuffer& buffer : lineage.buffers) {
    if (buffer.name == kNoBuffer) continue;
    if (buffer.name >= roles_.size()) roles_.resize(buffer.name + std::size_t{1});
    ++roles_[buffer.name];
  }
}

std::vector<VersionId> KeptInputs::of(const Drop& drop) const {
  std::vector<VersionId> kept;
  if (!lineage_.keeps_inputs || drop.version == kNoVersion) return kept;
  const std::uint32_t producer = lineage_.versions[drop.version].producer;
  if (producer == LineageVersion::kBefore) return kept;
  const Bytes dropped = lineage_.buffers[drop.buffer].bytes;
  for (const VersionedOperand& operand : lineage_.operands(producer)) {
    if (!operand.reads || operand.writes) continue;
    const LineageVersion& version = lineage_.versions[operand.read];
    const LineageBuffer& input = lineage_.buffers[version.buffer];
    const bool is_freed_meanwhile = drop.last_use <= input.death && input.death < drop.next_use;
    const bool is_last_content = version.last == LineageVersion::kBefore || version.last > input.death;
    const bool has_its_role_alone = input.name == kNoBuffer || roles_[input.name] == 1;
    if (is_freed_meanwhile && is_last_content && has_its_role_alone && is_kept_for(input.bytes, dropped))
      kept.push_back(operand.read);
  }
  return kept;
}

}  // namespace thermocline
