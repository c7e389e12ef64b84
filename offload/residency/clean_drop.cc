// SPDX-License-Identifier: Apache-2.0
// Clean drops: units whose host copy may be stale, because something was submitted that may have written to them, are
// evicted without a copy if they have not changed (docs/directions.md).
//
//   copied out, or back in    a digest is taken of what the host copy holds, behind the same uses as the copy
//   something may write       the copy becomes stale, and is kept
//   the unit is to leave      the device compares the digests, and copies where they differ
//
// The last is a single step for the host, which need not know the outcome: after it the copy is current. So it replaces
// a copy out everywhere. Each digest is a use of the unit: its pages do not change owners, and nothing writes to it,
// before that use has passed. A copy that the device could reach while the unit was evicted (host fallback) counts as a
// different copy: its digest is taken again, of the contents that were copied in.
#include <algorithm>

#include "driver/check.h"
#include "offload/residency/residency.h"

namespace thermocline {
namespace {

// Below this size a copy takes about as long as the launches, including their host time.
constexpr Bytes kLeastBytes = 256 * kKiB;
// A unit that was found changed is left alone for 2, 4, ... copies.
constexpr unsigned kMostDoublings = 6;
// Weights in training are found unchanged between the passes of a step, some times a step, and changed behind each.
constexpr std::uint8_t kEqualAfterChange = 16;
// After this many digests in a row of copies that were made all the same, a digest is taken only now and then.
constexpr std::uint64_t kUseless = 64;
constexpr std::uint64_t kNowAndThen = 8;

}  // namespace

bool Residency::takes_digests(const EvictionUnit& unit) const {
  // Contents that a slab got since it was copied are not in the copy.
  return takes_digests() && !host_mappings_.full() && !unit.is_pageable && unit.host_bytes >= kLeastBytes &&
         unit.host_bytes == migration_.contents_of(unit);
}

void Residency::take_digest_of_copy(EvictionUnit& unit) {
  Evidence& evidence = unit.evidence;
  if (evidence.copied.state != TakenDigest::State::kNone || !takes_digests(unit)) return;
  if (evidence.skip > 0) {
    --evidence.skip;
    return;
  }
  if (useless_digests_ >= kUseless && ++undigested_copies_ % kNowAndThen != 0) return;
  BlockState& state = *unit.whole;
  if (!digests_.take({unit.begin(), unit.host_bytes}, state.block->uses, unit.uses, &evidence.copied)) return;
  unit.uses.add(evidence.copied.use);
  state.wait_for.add(evidence.copied.use);
}

void Residency::may_have_changed(EvictionUnit& unit) {
  if (!unit.has_copy()) return;
  const bool is_read = unit.file != nullptr && unit.file->transfer != nullptr;
  if (unit.evidence.copied.is_known_or_coming() && takes_digests(unit) && unit.host != nullptr && !is_read) {
    migration_.drop_file_copy(unit);
    unit.copy = HostCopy::kStale;
  } else {
    drop_host_copy(unit);
  }
}

Status Residency::begin_eviction(EvictionUnit& unit, EvictReason reason) {
  if (unit.copy == HostCopy::kStale) {
    if (copy_out_if_changed(unit, reason)) {
      set_state(unit, ResidencyState::kClean);
      return {};
    }
    drop_host_copy(unit);
  }
  if (Status status = copy_out(unit, reason); !status.ok()) return status;
  set_state(unit, ResidencyState::kClean);
  return {};
}

bool Residency::copy_out_if_changed(EvictionUnit& unit, EvictReason reason) {
  count_outcomes();
  learn_outcome(unit.evidence);
  if (unit.evidence.skip > 0 || !takes_digests(unit)) return false;
  BlockState& state = *unit.whole;
  UseSet submitted;
  const bool copies = digests_.copy_if_changed({unit.begin(), unit.host_bytes}, unit.host, state.block->uses, unit.uses,
                                               &unit.evidence.copied, &submitted);
  unit.uses.join(submitted);
  state.wait_for.join(submitted);
  if (!copies) return false;
  migration_.evicted_after(unit, unit.evidence.copied.use);
  unit.evict_reason = reason;
  compared_.push_back({moved_unit(unit, unit.host_bytes), reason});
  return true;
}

// Takes note of the outcome of the unit's last comparison, if it is known.
void Residency::learn_outcome(Evidence& evidence) {
  using Outcome = TakenDigest::Outcome;
  const Outcome outcome = std::exchange(evidence.copied.outcome, Outcome::kNotCompared);
  if (evidence.copied.state != TakenDigest::State::kKnown || outcome == Outcome::kNotCompared) return;
  if (outcome == Outcome::kEqual) {
    evidence.changed = 0;
    evidence.proven = true;
    if (evidence.equal_to_come > 0) --evidence.equal_to_come;
    useless_digests_ = 0;
    return;
  }
  evidence.equal_to_come = kEqualAfterChange;
  evidence.changed = static_cast<std::uint8_t>(std::min<unsigned>(evidence.changed + 1u, kMostDoublings));
  evidence.skip = static_cast<std::uint8_t>(1u << evidence.changed);
}

void Residency::count_outcomes() {
  digests_.poll();
  using Outcome = TakenDigest::Outcome;
  for (Outcome outcome = digests_.next_outcome(); outcome != Outcome::kNotCompared; outcome = digests_.next_outcome()) {
    const Compared compared = compared_.front();
    compared_.pop_front();
    if (outcome == Outcome::kEqual) {
      ++statistics_.unchanged;
      statistics_.uncopied_bytes += compared.unit.bytes;
      continue;
    }
    ++statistics_.changed;
    migration_.copied_out(compared.unit.bytes);
    statistics_.by_reason.of(compared.reason).copied_bytes += compared.unit.bytes;
    if (options_.observer != nullptr) options_.observer->copying_out(compared.unit, compared.reason);
  }
}

void Residency::release_digest(EvictionUnit& unit) {
  count_outcomes();
  learn_outcome(unit.evidence);
  digests_.release(&unit.evidence.copied);
}

void Residency::drop_copy_and_digest(EvictionUnit& unit) {
  learn_outcome(unit.evidence);
  if (unit.evidence.copied.state != TakenDigest::State::kNone && !unit.evidence.proven) ++useless_digests_;
  unit.evidence.proven = false;
  if (std::exchange(unit.uploaded, false)) {
    unit.is_input = true;
    ++statistics_.useless_upload_copies;
  }
  digests_.release(&unit.evidence.copied);
  migration_.drop_host_copy(unit);
}

bool Residency::drop_a_stale_copy() {
  UnitList& dirty = dirty_.in_order();
  const auto stale = std::ranges::find(dirty, HostCopy::kStale, &EvictionUnit::copy);
  if (stale == dirty.end()) return false;
  drop_host_copy(*stale);
  return true;
}

}  // namespace thermocline
