// SPDX-License-Identifier: Apache-2.0
#include "trace/joint_step.h"

#include <algorithm>

namespace thermocline {

JointStep::JointStep(const SteadyStep& step, Bytes smallest) : operators(step.operators()) {
  for (std::uint32_t b = 0; b < step.buffers.size(); ++b) {
    if (step.buffers[b].bytes >= smallest) add_versions(step, b);
  }
  find_wanted();
}

void JointStep::add_versions(const SteadyStep& step, std::uint32_t buffer) {
  const StepBuffer& b = step.buffers[buffer];
  const auto first = versions.size();
  const auto begin_version = [&](int producer) {
    versions.push_back(
        {.buffer = buffer, .bytes = b.bytes, .producer = producer, .readers = {}, .wanted_until = producer});
  };
  if (b.is_from_before) begin_version(StepVersion::kBeforeStep);
  for (const StepUse& use : b.uses) {
    if (use.op >= step.operators()) break;
    if (use.reads && versions.size() > first) {
      versions.back().readers.push_back(use.op);
      operators[use.op].reads.push_back(static_cast<std::uint32_t>(versions.size()) - 1);
    }
    if (!use.writes) continue;
    operators[use.op].writes.push_back(static_cast<std::uint32_t>(versions.size()));
    begin_version(static_cast<int>(use.op));
  }
  if (b.is_persistent()) versions[first].heir = static_cast<int>(versions.size()) - 1;
}

void JointStep::find_wanted() {
  const int last = static_cast<int>(operators.size()) - 1;
  for (StepVersion& version : versions) {
    if (!version.readers.empty()) version.wanted_until = static_cast<int>(version.readers.back());
  }
  for (const StepVersion& version : versions) {
    if (version.heir >= 0) versions[static_cast<std::size_t>(version.heir)].wanted_until = last;
  }
  for (std::size_t t = operators.size(); t-- > 0;) {
    const int until = wanted_until(t);
    if (until <= static_cast<int>(t)) continue;
    for (const std::uint32_t v : operators[t].reads)
      versions[v].wanted_until = std::max(versions[v].wanted_until, until);
  }
}

int JointStep::wanted_until(std::size_t op) const {
  int until = -1;
  for (const std::uint32_t v : operators[op].writes) until = std::max(until, versions[v].wanted_until);
  return until;
}

}  // namespace thermocline
