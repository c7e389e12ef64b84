// SPDX-License-Identifier: Apache-2.0
#include "offload/recompute/verification.h"

#include <algorithm>

#include "driver/check.h"
#include "offload/recompute/obstacles.h"

namespace thermocline {

Verification::~Verification() {
  not_rehearsed();
  // The kernel's trial continues in other engines.
  for (const std::unique_ptr<Rehearsal>& one : rehearsals_) end(*one, Outcome::kInVain);
  for (const auto& [buffer, content] : dropped_) release(&content->digests);
  for (const std::unique_ptr<InUse>& content : made_again_) release(&content->digests);
}

void Verification::release(Pair* pair) {
  digests_.release(&pair->one);
  digests_.release(&pair->other);
}

bool Verification::is_pending(const Pair& pair) {
  using State = TakenDigest::State;
  return pair.one.state == State::kPending || pair.other.state == State::kPending;
}

KernelTrial::Outcome Verification::outcome_of(const Pair& pair) {
  using State = TakenDigest::State;
  if (pair.one.state != State::kKnown || pair.other.state != State::kKnown) return Outcome::kInVain;
  return pair.one.value == pair.other.value ? Outcome::kEqual : Outcome::kDifferent;
}

bool Verification::begin_rehearsal(KernelTrial* trial) {
  if (!may_rehearse(trial)) return false;
  if (!digests_.is_ready()) {
    if (!digests_.on()) trial->give_up();
    return false;
  }
  if (!trial->begin_rehearsal()) return false;
  THERMOCLINE_CHECK(rehearsal_ == nullptr, "one operation is prepared at a time");
  rehearsal_ = std::make_unique<Rehearsal>();
  rehearsal_->trial = trial;
  ++statistics_.rehearsals;
  return true;
}

void Verification::not_rehearsed() {
  if (rehearsal_ == nullptr) return;
  const std::unique_ptr<Rehearsal> vain = std::move(rehearsal_);
  end(*vain, Outcome::kInVain);
}

bool Verification::rehearsed(AddressRange at, const UseSet& behind, UseSet* submitted) {
  Pair& pair = rehearsal_->results.emplace_back();
  if (!digests_.take(at, behind, {}, &pair.one)) {
    not_rehearsed();
    return false;
  }
  submitted->add(pair.one.use);
  return true;
}

void Verification::performed(AddressRange at, const UseSet& behind, UseSet* submitted) {
  if (rehearsal_ == nullptr) return;
  Rehearsal& rehearsal = *rehearsal_;
  Pair& pair = rehearsal.results[rehearsal.performed++];
  if (!digests_.take(at, behind, {}, &pair.other)) return not_rehearsed();
  submitted->add(pair.other.use);
  if (rehearsal.performed == rehearsal.results.size()) rehearsals_.push_back(std::move(rehearsal_));
}

bool Verification::dropping(BufferNumber buffer, AddressRange at, const UseSet& behind, bool resident,
                            UseSet* submitted) {
  // The content before may have been overwritten instead of made again.
  forget(buffer);
  if (!always_ || versions_.trials_of_dropped(buffer).empty()) return true;
  auto content = std::make_unique<InUse>();
  content->bytes = at.bytes;
  if (!resident || !digests_.take(at, behind, {}, &content->digests.one)) return false;
  submitted->add(content->digests.one.use);
  dropped_[buffer] = std::move(content);
  return true;
}

void Verification::made_again(BufferNumber buffer, AddressRange at, const UseSet& behind, UseSet* submitted) {
  const auto known = dropped_.find(buffer);
  if (known == dropped_.end()) return;
  std::unique_ptr<InUse> content = std::move(known->second);
  dropped_.erase(known);
  content->trials = versions_.trials_of_dropped(buffer);
  // Its makers are not those known when it was dropped, and their results need no verification.
  if (content->trials.empty()) return release(&content->digests);
  if (digests_.take(at, behind, {}, &content->digests.other)) submitted->add(content->digests.other.use);
  made_again_.push_back(std::move(content));
}

void Verification::forget(BufferNumber buffer) {
  const auto known = dropped_.find(buffer);
  if (known == dropped_.end()) return;
  release(&known->second->digests);
  dropped_.erase(known);
}

void Verification::poll() {
  if (rehearsals_.empty() && made_again_.empty()) return;
  digests_.poll();
  // Digests become known in the order in which they were taken.
  while (!rehearsals_.empty() && std::ranges::none_of(rehearsals_.front()->results, is_pending)) {
    const std::unique_ptr<Rehearsal> passed = std::move(rehearsals_.front());
    rehearsals_.pop_front();
    Outcome outcome = Outcome::kEqual;
    for (const Pair& pair : passed->results) {
      const Outcome one = outcome_of(pair);
      if (one != Outcome::kEqual && outcome != Outcome::kDifferent) outcome = one;
    }
    end(*passed, outcome);
  }
  while (!made_again_.empty() && !is_pending(made_again_.front()->digests)) {
    const std::unique_ptr<InUse> content = std::move(made_again_.front());
    made_again_.pop_front();
    compare(*content);
  }
}

void Verification::end(Rehearsal& rehearsal, Outcome outcome) {
  for (Pair& pair : rehearsal.results) release(&pair);
  ++ended_;
  KernelTrial& trial = *rehearsal.trial;
  const bool has_changed = trial.rehearsal_ended(outcome);
  if (outcome == Outcome::kInVain) recompute_obstacles().rehearsals_in_vain.fetch_add(1, std::memory_order_relaxed);
  statistics_.verified += outcome == Outcome::kEqual;
  statistics_.mismatched += outcome == Outcome::kDifferent;
  if (!has_changed) return;
  if (outcome == Outcome::kEqual) ++statistics_.promoted;
  if (outcome != Outcome::kDifferent) return;
  ++statistics_.demoted;
  told_.came_out_different({.kernel = &trial});
}

bool Verification::is_followed(const TakenDigest& digest) const {
  return digest.state != TakenDigest::State::kPending || digests_.is_on_its_way(digest);
}

void Verification::validate() const {
  using State = TakenDigest::State;
  const auto are_followed = [this](const Pair& pair) { return is_followed(pair.one) && is_followed(pair.other); };
  if (rehearsal_ != nullptr) {
    THERMOCLINE_CHECK(rehearsal_->performed <= rehearsal_->results.size(), "a launch is compared with its rehearsal");
    THERMOCLINE_CHECK(std::ranges::all_of(rehearsal_->results, are_followed), "digests on their way become known");
  }
  for (const std::unique_ptr<Rehearsal>& one : rehearsals_) {
    THERMOCLINE_CHECK(!one->results.empty() && one->performed == one->results.size(),
                      "a rehearsal that is over has a result for each output");
    for (const Pair& pair : one->results) {
      THERMOCLINE_CHECK(pair.one.state != State::kNone && pair.other.state != State::kNone && are_followed(pair),
                        "both digests of a result have been asked for, and become known");
    }
  }
  THERMOCLINE_CHECK(always_ || (dropped_.empty() && made_again_.empty()), "what is not to be compared is not");
  for (const auto& [buffer, content] : dropped_) {
    THERMOCLINE_CHECK(content->digests.one.state != State::kNone && content->digests.other.state == State::kNone &&
                          content->trials.empty() && are_followed(content->digests),
                      "what was dropped has one digest");
  }
  for (const std::unique_ptr<InUse>& content : made_again_) {
    THERMOCLINE_CHECK(
        content->digests.one.state != State::kNone && !content->trials.empty() && are_followed(content->digests),
        "what was made again was dropped, and made by somebody");
  }
  const std::uint64_t under_way = rehearsals_.size() + (rehearsal_ != nullptr ? 1 : 0);
  THERMOCLINE_CHECK(statistics_.rehearsals == ended_ + under_way, "each rehearsal that has begun ends");
}

void Verification::compare(const InUse& content) {
  const Outcome outcome = outcome_of(content.digests);
  if (outcome == Outcome::kInVain) ++statistics_.unverified;
  if (outcome == Outcome::kEqual) {
    ++statistics_.verified;
    content.trials.front()->was_equal();
  }
  if (outcome != Outcome::kDifferent) return;
  ++statistics_.mismatched;
  KernelTrial* const maker = content.trials.front();
  // Any of them may have been at fault.
  for (KernelTrial* const trial : content.trials) {
    if (!trial->differed()) continue;
    ++statistics_.demoted;
    told_.came_out_different(
        {.kernel = trial, .maker = trial == maker ? nullptr : maker, .bytes = content.bytes, .in_use = true});
  }
}

}  // namespace thermocline
