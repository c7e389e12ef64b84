// SPDX-License-Identifier: Apache-2.0
// Parts whose host copy may be stale, because something was submitted that may have written to them, leave without a
// copy where a digest of their pages equals that of the copy (docs/directions.md).
//
//   copied out, or back in    a digest is taken of what the host copy holds, behind the same uses as the copy
//   something may write       the copy becomes stale, and is kept
//   the part is to leave      a digest is taken of its pages, behind its last use: the part is being checked
//   the digests are equal     the copy is current again, and the part clean; else the copy out begins
//
// Each digest is a use of the part: its pages do not change hands, and nobody writes to it, before that has passed. An
// access ends a check, whatever it comes to. A copy that the device could reach while the part was away (host fallback)
// is taken for another one: its digest is taken anew, of what was copied in.
//
// Not while pages are given away before their uses have passed (trusting): the host would have to wait for the digest.
#include <algorithm>

#include "driver/check.h"
#include "offload/residency/residency.h"

namespace thermocline {
namespace {

// Below that a copy takes about as long as a launch, and what the host spends on it.
constexpr Bytes kLeastBytes = 256 * kKiB;
// A part that was found changed is left alone for 2, 4, ... copies.
constexpr unsigned kMostDoublings = 6;
// After so many digests of copies that went without having saved one a copy is only now and then worth a digest.
constexpr std::uint64_t kUseless = 64;
constexpr std::uint64_t kNowAndThen = 8;

}  // namespace

bool Residency::takes_digests(const EvictionUnit& part) const {
  return digests_.on() && !trusting_ && !net_.full() && part.host_bytes >= kLeastBytes;
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
  if (!digests_.take(Digests::kCopies, {part.begin(), part.host_bytes}, state.block->uses, part.uses,
                     &evidence.copied)) {
    return;
  }
  part.uses.add(evidence.copied.use);
  state.wait_for.add(evidence.copied.use);
}

void Residency::may_have_changed(EvictionUnit& part) {
  if (!part.has_copy()) return;
  if (part.evidence.copied.is_known_or_coming() && takes_digests(part)) {
    part.copy = HostCopy::kStale;
  } else {
    drop_host_copy(part);
  }
}

Status Residency::begin_to_leave(EvictionUnit& part, EvictReason reason) {
  if (part.is_being_checked()) return {};
  if (part.copy == HostCopy::kStale) {
    if (begin_check(part, reason)) return {};
    drop_host_copy(part);
  }
  if (Status status = copy_out(part, reason); !status.ok()) return status;
  place(part, Place::kClean);
  return {};
}

bool Residency::begin_check(EvictionUnit& part, EvictReason reason) {
  Evidence& evidence = part.evidence;
  digests_.poll();
  if (!evidence.copied.is_known_or_coming() || !takes_digests(part)) return false;
  BlockState& state = *part.whole;
  if (!digests_.take(Digests::kChecks, {part.begin(), part.host_bytes}, state.block->uses, part.uses,
                     &evidence.checked)) {
    return false;
  }
  part.uses.add(evidence.checked.use);
  state.wait_for.add(evidence.checked.use);
  checks_.push_back({&part, reason});
  return true;
}

void Residency::end_check(EvictionUnit& part) {
  if (!part.is_being_checked()) return;
  digests_.release(&part.evidence.checked);
  std::erase_if(checks_, [&part](const Check& check) { return check.part == &part; });
}

Status Residency::settle_checks(Wait wait, bool* settled) {
  digests_.poll();
  while (!checks_.empty()) {
    const Check check = checks_.front();
    const TakenDigest& checked = check.part->evidence.checked;
    if (!clock_.passed(checked.use)) {
      if (wait == Wait::kNo || *settled) return {};
      if (Status status = clock_.synchronize(checked.use); !status.ok()) return status;
    }
    digests_.poll();
    *settled = true;
    settle_check(*check.part, check.reason);
  }
  return {};
}

void Residency::settle_check(EvictionUnit& part, EvictReason reason) {
  Evidence& evidence = part.evidence;
  const bool known =
      evidence.checked.state == TakenDigest::State::kKnown && evidence.copied.state == TakenDigest::State::kKnown;
  const bool equal = known && evidence.checked.value == evidence.copied.value;
  end_check(part);
  if (equal) {
    // When it was copied out is not known here: the clock is asked.
    part.copy = HostCopy::kLeaving;
    part.leaves_for = reason;
    evidence.changed = 0;
    evidence.proven = true;
    useless_digests_ = 0;
    ++statistics_.unchanged;
    statistics_.uncopied_bytes += part.host_bytes;
    place(part, Place::kClean);
    return;
  }
  if (known) {
    ++statistics_.changed;
    evidence.changed = static_cast<std::uint8_t>(std::min<unsigned>(evidence.changed + 1u, kMostDoublings));
    evidence.skip = static_cast<std::uint8_t>(1u << evidence.changed);
  }
  drop_host_copy(part);
  // Where there is no room for its copy it stays dirty, and whoever needs its room asks again.
  if (part.defined && may_leave(part) && copy_out(part, reason).ok()) place(part, Place::kClean);
}

void Residency::drop_host_copy(EvictionUnit& part) {
  end_check(part);
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
