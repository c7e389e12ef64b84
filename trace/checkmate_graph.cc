// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <numeric>

#include "trace/checkmate.h"

namespace thermocline {
namespace {

void insert_sorted(std::vector<std::uint32_t>* list, std::uint32_t one) {
  const auto at = std::ranges::lower_bound(*list, one);
  if (at == list->end() || *at != one) list->insert(at, one);
}

}  // namespace

CheckmateGraph::CheckmateGraph(const Profile& profile, const Lineage& lineage, std::uint32_t most_groups)
    : pass(profile, lineage) {
  find_groups(profile, lineage, most_groups);
  find_values(profile, lineage);
  find_memory(profile, lineage);
}

std::uint32_t CheckmateGraph::group_of(std::uint32_t place) const {
  return static_cast<std::uint32_t>(std::ranges::lower_bound(ends, place) - ends.begin());
}

std::uint32_t CheckmateGraph::stage_of(std::uint32_t place) const {
  return static_cast<std::uint32_t>(std::ranges::upper_bound(begins, place) - begins.begin()) - 1;
}

// The narrow points nearest to equal parts of the forward pass.
void CheckmateGraph::find_groups(const Profile& profile, const Lineage& lineage, std::uint32_t most) {
  const std::vector<std::uint32_t> points = pass.narrow_points(profile);
  const std::uint32_t length = std::max(1U, (pass.forward_end + 1) / most);
  std::uint32_t begin = 0;
  const auto end_before = [&](std::uint32_t end) {
    // If nothing is narrow for long, groups have equal lengths.
    while (end > begin + length + length / 2) {
      ends.push_back(begin + length - 1);
      begin += length;
    }
  };
  for (const std::uint32_t point : points) {
    if (point + 1 < begin + length || point >= pass.forward_end) continue;
    end_before(point + 1);
    ends.push_back(point);
    begin = point + 1;
  }
  end_before(pass.forward_end + 1);
  ends.push_back(pass.forward_end);
  std::vector<std::uint32_t> needed(ends.size(), LineageVersion::kBefore);
  for (const Drop& drop : pass.drops) {
    std::uint32_t& first = needed[group_of(lineage.versions[drop.version].producer)];
    first = std::min(first, drop.next_use);
  }
  insert_sorted(&begins, pass.forward_end + 1);
  for (const std::uint32_t place : needed) {
    if (place != LineageVersion::kBefore) insert_sorted(&begins, place);
  }
  insert_sorted(&begins, static_cast<std::uint32_t>(profile.places()));
}

void CheckmateGraph::find_values(const Profile& profile, const Lineage& lineage) {
  std::map<std::pair<std::uint32_t, bool>, std::uint32_t> known;
  std::map<VersionId, std::uint32_t> value_of;
  for (const Drop& drop : pass.drops) {
    const std::uint32_t group = group_of(lineage.versions[drop.version].producer);
    const bool crosses = group_of(drop.last_use) != group;
    const auto [at, is_new] = known.try_emplace({group, crosses}, static_cast<std::uint32_t>(values.size()));
    if (is_new) values.push_back({.group = group, .crosses = crosses});
    Value& value = values[at->second];
    value.bytes += static_cast<double>(profile.buffers[lineage.buffers[drop.buffer].name].bytes);
    value.drops.push_back(drop);
    value_of[drop.version] = at->second;
  }
  for (std::uint32_t q = 0; q < lineage.places(); ++q) {
    for (const VersionedOperand& operand : lineage.operands(q)) {
      const auto found = operand.reads ? value_of.find(operand.read) : value_of.end();
      if (found == value_of.end()) continue;
      Value& value = values[found->second];
      if (q > pass.forward_end) {
        insert_sorted(&value.stages, stage_of(q));
      } else if (group_of(q) != value.group) {
        insert_sorted(&value.groups, group_of(q));
      }
    }
  }
}

void CheckmateGraph::find_memory(const Profile& profile, const Lineage& lineage) {
  std::vector<double> others = live_bytes_of(profile);
  std::vector<bool> is_of_value(lineage.versions.size());
  for (const Drop& drop : pass.drops) is_of_value[drop.version] = true;
  seconds.assign(ends.size(), 0);
  transient.assign(ends.size(), 0);
  for (std::uint32_t q = 0; q <= pass.forward_end; ++q) {
    seconds[group_of(q)] += static_cast<double>(profile.nanoseconds[q]) * 1e-9;
    double written = 0;
    for (std::size_t i = 0; i < lineage.operands(q).size(); ++i) {
      if (lineage.operands(q)[i].writes && !is_of_value[lineage.operands(q)[i].written])
        written += static_cast<double>(lineage.buffers[lineage.operand_buffers(q)[i]].bytes);
    }
    transient[group_of(q)] = std::max(transient[group_of(q)], written);
  }
  live_at_forward_end = others[pass.forward_end];
  for (Value& value : values) {
    for (const Drop& drop : value.drops) {
      const ProfiledBuffer& buffer = profile.buffers[lineage.buffers[drop.buffer].name];
      const auto bytes = static_cast<double>(buffer.bytes);
      for (std::uint32_t q = pass.forward_end + 1; q <= buffer.death; ++q) others[q] -= bytes;
      if (drop.last_use >= pass.forward_end) continue;
      live_at_forward_end -= bytes;
      value.bytes_before_forward_end += bytes;
    }
  }
  for (std::uint32_t t = 0; t < stages(); ++t) {
    live_at_begin.push_back(others[begins[t]]);
    live_at_most.push_back(*std::max_element(others.begin() + begins[t], others.begin() + begins[t + 1]));
  }
}

}  // namespace thermocline
