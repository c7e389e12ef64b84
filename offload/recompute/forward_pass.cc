// SPDX-License-Identifier: Apache-2.0
#include "offload/recompute/forward_pass.h"

#include <algorithm>
#include <numeric>

namespace thermocline {
namespace {

// Versions that cross more than this part of the forward pass are skip connections.
constexpr std::uint32_t kLongPart = 8;

// Smaller buffers share slabs, and are not planned.
bool is_large(const Profile& profile, const Lineage& lineage, std::uint32_t buffer) {
  return may_be_dropped(profile, lineage, buffer) && lineage.buffers[buffer].bytes >= profile.page_bytes / 2;
}

// By version: whether it can be made from what exists when the forward pass has ended, however much of that is dropped.
std::vector<bool> find_recomputable(const Lineage& lineage, std::uint32_t forward_end) {
  std::vector<bool> recomputable(lineage.versions.size());
  for (std::uint32_t q = 0; q <= forward_end; ++q) {
    const std::span<const VersionedOperand> operands = lineage.operands(q);
    const bool can = lineage.is_repeatable(q) && std::ranges::all_of(operands, [&](const VersionedOperand& operand) {
                       if (!operand.reads || recomputable[operand.read]) return true;
                       // Inputs that are overwritten have to be made first.
                       return !operand.writes && lineage.is_current_at(operand.read, forward_end + 1);
                     });
    for (const VersionedOperand& operand : operands) {
      if (operand.writes) recomputable[operand.written] = can;
    }
  }
  return recomputable;
}

}  // namespace

std::vector<double> live_bytes_of(const Profile& profile) {
  std::vector<double> live(profile.places() + 1);
  const auto add = [&live](std::uint32_t from, std::uint32_t to, double bytes) {
    live[from] += bytes;
    live[to + std::size_t{1}] -= bytes;
  };
  const auto last = static_cast<std::uint32_t>(profile.places() - 1);
  for (const ProfiledBuffer& buffer : profile.buffers) {
    const auto bytes = static_cast<double>(buffer.bytes);
    const bool goes_round = !buffer.always && buffer.birth > buffer.death;
    if (buffer.always || goes_round) add(0, buffer.always ? last : buffer.death, bytes);
    if (!buffer.always) add(buffer.birth, goes_round ? last : buffer.death, bytes);
  }
  for (std::size_t q = 1; q < live.size(); ++q) live[q] += live[q - 1];
  live.resize(profile.places());
  for (std::size_t q = 0; q < live.size(); ++q) live[q] += static_cast<double>(profile.unplanned_bytes[q]);
  return live;
}

// A buffer that lives across the end of the iteration is a different one after it.
bool may_be_dropped(const Profile& profile, const Lineage& lineage, std::uint32_t buffer) {
  const std::uint32_t name = lineage.buffers[buffer].name;
  if (name == kNoBuffer || lineage.buffers[buffer].death == LineageBuffer::kOutlives) return false;
  if (!lineage.buffers[buffer].may_be_dropped) return false;
  const ProfiledBuffer& profiled = profile.buffers[name];
  return !profiled.always && profiled.birth <= profiled.death;
}

ForwardPass::ForwardPass(const Profile& profile, const Lineage& lineage) {
  const std::vector<double> live = live_bytes_of(profile);
  forward_end = static_cast<std::uint32_t>(std::ranges::max_element(live) - live.begin());
  const std::vector<bool> recomputable = find_recomputable(lineage, forward_end);
  std::vector<std::uint32_t> last_use(lineage.buffers.size(), LineageVersion::kBefore);
  std::vector<std::uint32_t> last_read(lineage.versions.size(), 0);
  for (std::uint32_t q = 0; q < lineage.places(); ++q) {
    const std::span<const VersionedOperand> operands = lineage.operands(q);
    const std::span<const std::uint32_t> buffers = lineage.operand_buffers(q);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const std::uint32_t b = buffers[i];
      const VersionId read = operands[i].reads ? operands[i].read : kNoVersion;
      if (read != kNoVersion && q <= forward_end) last_read[read] = q;
      const bool was_used = last_use[b] != LineageVersion::kBefore && last_use[b] <= forward_end;
      if (was_used && q > forward_end && read != kNoVersion && may_be_dropped(profile, lineage, b)) {
        const std::uint32_t from = std::max(last_use[b], profile.buffers[lineage.buffers[b].name].held_until);
        if (from <= forward_end && recomputable[read])
          drops.push_back({.buffer = b, .last_use = from, .next_use = q, .version = read});
      }
      last_use[b] = q;
    }
  }
  std::ranges::stable_sort(drops, {}, &Drop::last_use);
  std::vector<bool> stays(lineage.versions.size());
  for (const Drop& drop : drops) stays[drop.version] = true;
  for (VersionId v = 0; v < lineage.versions.size(); ++v) {
    const LineageVersion& version = lineage.versions[v];
    if (version.producer == LineageVersion::kBefore || version.producer >= last_read[v]) continue;
    if (is_large(profile, lineage, version.buffer)) crossings.push_back({v, version.producer, last_read[v], stays[v]});
  }
  std::ranges::stable_sort(crossings, {}, &Crossing::made);
}

std::vector<std::uint32_t> ForwardPass::narrow_points(const Profile& profile) const {
  std::vector<int> count(forward_end + std::size_t{2}), leaving(forward_end + std::size_t{2});
  for (const Crossing& one : crossings) {
    if (one.read - one.made > forward_end / kLongPart) continue;
    ++count[one.made];
    --count[one.read];
    if (one.stays) continue;
    ++leaving[one.made];
    --leaving[one.read];
  }
  std::partial_sum(count.begin(), count.end(), count.begin());
  std::partial_sum(leaving.begin(), leaving.end(), leaving.begin());
  const auto end = profile.nanoseconds.begin() + forward_end + 1;
  const std::uint64_t mean = std::accumulate(profile.nanoseconds.begin(), end, std::uint64_t{0}) / (forward_end + 1);
  std::vector<std::uint32_t> points;
  for (std::uint32_t begin = 0, after = 0; begin < forward_end; begin = after) {
    for (after = begin + 1; after < forward_end && count[after] == count[begin];) ++after;
    const bool rises = after == forward_end || count[after] > count[begin];
    if ((begin > 0 && count[begin - 1] < count[begin]) || !rises) continue;
    const std::size_t before = points.size();
    std::uint32_t last = after - 1;
    for (std::uint32_t p = begin; p < after; ++p) {
      if (leaving[p] > 0) continue;
      last = p;
      if (profile.nanoseconds[p + 1] >= mean) points.push_back(p);
    }
    if (points.size() == before) points.push_back(last);
  }
  return points;
}

std::vector<Bytes> ForwardPass::crossing_bytes(const Lineage& lineage, bool only_leaving) const {
  std::vector<std::int64_t> bytes(forward_end + std::size_t{2});
  for (const Crossing& one : crossings) {
    if (only_leaving && one.stays) continue;
    const auto size = static_cast<std::int64_t>(lineage.buffer_of(one.version).bytes);
    bytes[one.made] += size;
    bytes[one.read] -= size;
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  return {bytes.begin(), bytes.end()};
}

Schedule recompute_segments(const ForwardPass& pass, const Lineage& lineage, const std::vector<std::uint32_t>& ends,
                            bool keeps_last) {
  const auto segment_of = [&](std::uint32_t place) {
    return static_cast<std::size_t>(std::ranges::lower_bound(ends, place) - ends.begin());
  };
  Schedule schedule;
  std::vector<std::uint32_t> needed(ends.size() + 1, LineageVersion::kBefore);  // by segment: its first use backwards
  for (const Drop& drop : pass.drops) {
    const std::size_t segment = segment_of(lineage.versions[drop.version].producer);
    if (segment != segment_of(drop.last_use) || (keeps_last && segment == ends.size())) continue;
    schedule.drops.push_back(drop);
    needed[segment] = std::min(needed[segment], drop.next_use);
  }
  for (const Drop& drop : schedule.drops) {
    const std::size_t segment = segment_of(lineage.versions[drop.version].producer);
    schedule.recomputations.push_back({.place = needed[segment], .buffer = drop.buffer, .version = drop.version});
  }
  std::ranges::stable_sort(schedule.recomputations, {}, &Recomputation::place);
  return schedule;
}

}  // namespace thermocline
