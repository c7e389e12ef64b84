// SPDX-License-Identifier: Apache-2.0
// Parts whose host copy may be stale, because something was submitted that may have written to them, leave without
// being copied where they have not changed (docs/directions.md).
//
//   copied out, or back in    a digest is taken of what the host copy holds, behind the same uses as the copy
//   something may write       the copy becomes stale, and is kept
//   the part is to leave      the device compares the digests, and copies where they differ
//
// The last is one step for the host, which need not know the outcome: behind it the copy is current. So it takes the
// place of a copy out everywhere. Each digest is a use of the part: its pages do not change hands, and nobody writes to
// it, before that has passed. A copy that the device could reach while the part was evicted (host fallback) is taken for
// another one: its digest is taken anew, of what was copied in.
#include <algorithm>

#include "driver/check.h"
#include "offload/residency/residency.h"

namespace thermocline {
namespace {

// Below that a copy takes about as long as the launches, and what the host spends on them.
constexpr Bytes kLeastBytes = 256 * kKiB;
// A part that was found changed is left alone for 2, 4, ... copies.
constexpr unsigned kMostDoublings = 6;
// After so many digests of copies that went without having saved one a copy is only now and then worth a digest.
constexpr std::uint64_t kUseless = 64;
constexpr std::uint64_t kNowAndThen = 8;

}  // namespace

bool Residency::takes_digests(const EvictionUnit& part) const {
  // What a slab has been given since it was copied is not in the copy.
  return digests_.on() && !net_.full() && part.host_bytes >= kLeastBytes &&
         part.host_bytes == migration_.contents_of(part);
}

void Residency::take_digest_of_copy(EvictionUnit& part) {
  Evidence& evidence = part.evidence;
  if (evidence.copied.state != TakenDigest::State::kNone || !takes_digests(part)) return;
  if (evidence.skip > 0) {
    --evidence.skip;
    return;
  }
  if (useless_digests_ >= kUseless && ++undigested_copies_ % kNowAndThen != 0) return;
  BlockState& state = *part.whole;
  if (!digests_.take({part.begin(), part.host_bytes}, state.block->uses, part.uses, &evidence.copied)) return;
  part.uses.add(evidence.copied.use);
  state.wait_for.add(evidence.copied.use);
}

void Residency::may_have_changed(EvictionUnit& part) {
  if (!part.has_copy()) return;
  const bool is_read = part.file != nullptr && part.file->transfer != nullptr;
  if (part.evidence.copied.is_known_or_coming() && takes_digests(part) && part.host != nullptr && !is_read) {
    migration_.drop_file_copy(part);
    part.copy = HostCopy::kStale;
  } else {
    drop_host_copy(part);
  }
}

Status Residency::begin_to_leave(EvictionUnit& part, EvictReason reason) {
  if (part.copy == HostCopy::kStale) {
    if (copy_out_if_changed(part, reason)) {
      set_state(part, ResidencyState::kClean);
      return {};
    }
    drop_host_copy(part);
  }
  if (Status status = copy_out(part, reason); !status.ok()) return status;
  set_state(part, ResidencyState::kClean);
  return {};
}

bool Residency::copy_out_if_changed(EvictionUnit& part, EvictReason reason) {
  count_outcomes();
  learn_outcome(part.evidence);
  if (part.evidence.skip > 0 || !takes_digests(part)) return false;
  BlockState& state = *part.whole;
  UseSet submitted;
  const bool copies = digests_.copy_if_changed({part.begin(), part.host_bytes}, part.host, state.block->uses, part.uses,
                                               &part.evidence.copied, &submitted);
  part.uses.join(submitted);
  state.wait_for.join(submitted);
  if (!copies) return false;
  migration_.leaves_by(part, part.evidence.copied.use);
  part.leaves_for = reason;
  compared_.push_back({moved_unit(part, part.host_bytes), reason});
  return true;
}

// What the last comparison of the part has come to, if it is known.
void Residency::learn_outcome(Evidence& evidence) {
  using Outcome = TakenDigest::Outcome;
  const Outcome outcome = std::exchange(evidence.copied.outcome, Outcome::kNotCompared);
  if (evidence.copied.state != TakenDigest::State::kKnown || outcome == Outcome::kNotCompared) return;
  if (outcome == Outcome::kEqual) {
    evidence.changed = 0;
    evidence.proven = true;
    useless_digests_ = 0;
    return;
  }
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

void Residency::release_digest(EvictionUnit& part) {
  count_outcomes();
  learn_outcome(part.evidence);
  digests_.release(&part.evidence.copied);
}

void Residency::drop_host_copy(EvictionUnit& part) {
  learn_outcome(part.evidence);
  if (part.evidence.copied.state != TakenDigest::State::kNone && !part.evidence.proven) ++useless_digests_;
  part.evidence.proven = false;
  digests_.release(&part.evidence.copied);
  migration_.drop_host_copy(part);
}

bool Residency::drop_a_stale_copy() {
  const auto stale = std::ranges::find(dirty_, HostCopy::kStale, &EvictionUnit::copy);
  if (stale == dirty_.end()) return false;
  drop_host_copy(*stale);
  return true;
}

}  // namespace thermocline
