// SPDX-License-Identifier: Apache-2.0
#include "offload/policy/learned.h"

#include <algorithm>
#include <unordered_map>

#include "driver/hash.h"
#include "offload/policies.h"
#include "offload/recompute/joint_plan.h"
#include "offload/recompute/obstacles.h"

namespace thermocline {
namespace {

// Waiting for freed pages means waiting for the next fence after their last use: a fence at such intervals of device
// time keeps that wait short, at less than 1 % of host time.
constexpr std::uint64_t kFenceEveryNs = 100'000;
// With this much work ahead of the device the host need not hurry: many times the duration of fetching a unit (two
// hundred microseconds).
constexpr std::uint64_t kFarAheadNs = 10'000'000;
constexpr std::size_t kMostMarks = 4096;
constexpr unsigned kMostCorrections = 4;
constexpr std::size_t kTolerated = 8;  // one mistake is tolerated for this many evictions
// A plan that takes so much longer than is predicted of it is compared with one that counts mapping calls, of which as much
// less has to be predicted: it, too, may take longer.
constexpr double kTooSlow = 1.25;
constexpr std::size_t kSweptAtOnce = 4;
// A plan holds while the memory that it was made for has changed by less than one part in this many.
constexpr Bytes kToleratedPart = 8;

std::uint64_t scramble(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  return x;
}

}  // namespace

// Only blocks with a single buffer count: how small buffers share slabs may vary from one iteration to the
// next.
//
// For a kernel whose parameters were read only the kind counts, which includes its grid. Some parameters contain words
// that nobody sets and that look like addresses (unsteady_kinds.h); under memory pressure, when buffers get other
// addresses in each iteration, these point into a different buffer each time.
std::uint64_t LearnedPolicy::token_of(const Arrival& arrival) const {
  std::uint64_t token = scramble(arrival.info.kind + kHashFactor);
  if (by_kind_) return token;
  token = scramble(token ^ arrival.accesses);
  for (const BlockState* state : arrival.operands) {
    if (!state->block->is_slab()) token = scramble(token ^ (state->block->bytes() + kHashFactor));
  }
  return token;
}

// A copy names all its accesses; those of kernels are read from their parameters (unsteady_kinds.h).
std::uint64_t LearnedPolicy::kind_of(const OperationInfo& info) const {
  return info.operator_class == OperatorClass::kCopy || by_kind_ ? 0 : info.kind;
}

bool LearnedPolicy::counts_by_kind(const OperationInfo& info) {
  return info.follows && info.is_kernel() && info.kind != 0;
}

std::uint64_t LearnedPolicy::nanoseconds_of(const OperationInfo& info, Bytes own_bytes) const {
  if (info.nanoseconds != 0) return info.nanoseconds;
  if (!following_) return guessed_nanoseconds(own_bytes, info.operator_class);
  // If the operation is the expected one, which is not known yet, it takes as long as was measured.
  const Profile& profile = known_[current_].profile;
  const std::size_t next = period_detector_.position() + 1;
  return profile.nanoseconds[next < profile.places() ? next : 0];
}

// Returns the bytes of the blocks that have a single buffer; they come first in the list.
Bytes LearnedPolicy::list_operands(std::span<BlockState* const> operands) {
  operands_.clear();
  Bytes own_bytes = 0;
  for (BlockState* const state : operands) {
    if (state->block->is_slab()) continue;
    operands_.push_back(state);
    own_bytes += state->block->bytes();
  }
  own_pages_ = operands_.size();
  if (own_pages_ == operands.size()) return own_bytes;
  for (BlockState* const state : operands) {
    if (state->block->is_slab()) operands_.push_back(state);
  }
  return own_bytes;
}

[[gnu::always_inline]] inline ProfileRecorder::Operand LearnedPolicy::profiled(const BlockState& state,
                                                                               bool takes_digests) const {
  const Block& block = *state.block;
  const Bytes bytes = block.bytes();
  return {.serial = block.serial(),
          .bytes = bytes,
          // The contents of a slab change while it is evicted.
          .contents = block.is_slab() ? bytes : block.contents_end(),
          .planned = bytes >= min_offload_bytes_ && state.pins == 0,
          .only_read = state.only_reads() || (takes_digests && state.was_found_unchanged())};
}

void LearnedPolicy::arriving(const Arrival& arrival) {
  count_arrived();
  expect_nothing();
  if (comes_as_before(arrival)) return;
  learn_repeats();
  repeats_ = 0;
  const Bytes own_bytes = list_operands(arrival.operands);
  by_kind_ = counts_by_kind(arrival.info);
  token_ = token_of(arrival);
  timed_ = arrival.info.nanoseconds != 0;
  const std::uint64_t nanoseconds = nanoseconds_of(arrival.info, own_bytes);
  unfenced_ns_ += nanoseconds;
  assignment_.arriving(current_, submitted_ns_);
  arrived_ns_ = nanoseconds;
  submitted_ns_ += nanoseconds;
  const std::size_t sure = by_kind_ ? std::min(own_pages_, ProfileRecorder::kSureOperands) : own_pages_;
  const bool takes_digests = residency_.takes_digests();
  const Reuse reuse = recorder_.add(operands_.size(), sure, nanoseconds, arrival.live_block_bytes,
                                    [&](std::size_t i) { return profiled(*operands_.data()[i], takes_digests); });
  const std::size_t before = period_detector_.position();
  switch (period_detector_.add(token_, arrival.live_bytes, reuse, kind_of(arrival.info))) {
    case PeriodDetector::Event::kFound:
      known_[period_detector_.iteration()].corrections = 0;
      learn();
      break;
    case PeriodDetector::Event::kMatch:
      match(before);
      if (following_) note_how_it_came(arrival, sure);
      break;
    case PeriodDetector::Event::kDiverged:
      if (following_) {
        ++divergences_;
        residency_.plan_ended();
      }
      in_a_row_ = 0;
      assignment_.diverged();
      following_ = false;
      returns_.clear();
      break;
    case PeriodDetector::Event::kNothing:
      break;
  }
  if (!following_) resident_set_.arriving(arrival);
  // Addresses are reserved once all accesses are known, and given back when they are needed, or buffers are freed.
  const bool trusting = residency_.is_trusting();
  set_wants({.arrivals = true,
             .submitting = following_ ? trusting : !timed_,
             .submitted = !following_ || trusting || acts(),
             .allocating = following_,
             .addresses = wants().addresses || trusting});
}

void LearnedPolicy::step() {
  learn_repeats();
  if (period_detector_.mark()) learn();
}

void LearnedPolicy::match(std::size_t before) {
  if (planning_.begun() && period_detector_.operations() >= adopt_at_) adopt();
  // Pending fetches belong to the path that the program has left.
  const bool goes_on = period_detector_.position() == before + 1 || period_detector_.position() == 0;
  if (current_ != period_detector_.iteration() || !goes_on) {
    returns_.clear();
    assignment_.diverged();
    in_a_row_ = 0;
  }
  const bool begins = period_detector_.position() == 0;
  in_a_row_ = begins && before + 1 != period_detector_.period() ? 1 : in_a_row_ + 1;
  current_ = period_detector_.iteration();
  const bool has_room = has_planned_room(known_[current_]);
  if (following_ && !has_room) residency_.plan_ended();
  following_ = has_room && !known_[current_].plan.evictions.empty();

  if (acts() && period_detector_.position() == 0) {
    assignment_.begins(current_, submitted_ns_, migration_.link());
  }
  if (acts() || (planning_.begun() && planned_ == current_)) bind();
  if (!has_room && is_behind_two() && !planning_.begun()) return learn();
  if (following_ && residency_.takes_digests()) learn_anew_if_mistaken();
  if (following_ && versions_ != nullptr) learn_anew_if_refused();
  if (rewriting() != nullptr) learn_anew_if_slower();
}

void LearnedPolicy::learn() {
  // A plan in progress reads its profile.
  if (planning_.begun()) adopt();
  following_ = false;
  returns_.clear();
  current_ = period_detector_.iteration();
  PlannedIteration& known = known_[current_];
  known.plan = {};
  known.forget_what_came();
  assignment_.forget(current_);
  known.profile = recorder_.make(period_detector_.period());
  known.profile.page_bytes = heap_.page_bytes();
  if (!timed_) {
    durations_.collect();
    for (std::size_t index = 0; index < known.profile.places(); ++index) {
      const std::uint64_t measured = durations_.nanoseconds(period_detector_.token_at(index));
      if (measured != 0) known.profile.nanoseconds[index] = measured;
    }
  }
  planned_ = current_;
  known.limit = heap_.limit();
  std::optional<Lineage> lineage;
  if (versions_ != nullptr) {
    lineage = versions_->lineage_of(known.profile);
    known.planned_without = KernelTrial::refusals();
    known.has_lineage = lineage.has_value();
    known.all_known = known.has_lineage || versions_->are_all_known(known.profile.places());
  }
  if (kept_plan_.has_value())
    known.mapping = Mapping::kEachTime;
  else
    known.mapping = residency_.is_trusting() || !gains_by_trust() ? Mapping::kForGood : Mapping::kEachTime;
  planning_.start([&profile = known.profile, limit = heap_.limit(), link = migration_.link(), lineage,
                   plans = recompute_plans_, schedules = schedules_, mapping = known.mapping] {
    if (lineage && schedules != nullptr) return plan_scheduled(profile, *lineage, limit, link, mapping, *schedules);
    return lineage ? plan_jointly(profile, *lineage, limit, link, mapping, plans)
                   : plan_iteration(profile, limit, link);
  });
  adopt_at_ = period_detector_.operations() + period_detector_.period();
  known.actors.assign(known.profile.buffers.size(), {});
  std::unordered_map<std::uint64_t, std::uint32_t> names;
  for (std::uint32_t name = 0; name < known.profile.buffers.size(); ++name) {
    names[known.profile.buffers[name].latest_serial] = name;
  }
  heap_.for_each_block([&](Block& block) {
    if (const auto name = names.find(block.serial()); name != names.end()) {
      known.actors[name->second] = {&residency_.state_of(block), block.serial()};
    }
  });
  known.unchanged.clear();
  for (const Actor& actor : known.actors) {
    known.unchanged.push_back(actor.alive() && actor.state->was_found_unchanged());
  }
}

// A plan for another budget (shared_budget.cc) evicts what fits by now, or leaves what does not.
bool LearnedPolicy::has_planned_room(const PlannedIteration& known) const {
  const Bytes limit = heap_.limit(), tolerated = known.limit / kToleratedPart;
  return known.limit == 0 || (limit + tolerated >= known.limit && limit <= known.limit + tolerated);
}

// A profile describes the last operations: one whole iteration after another one. In the middle of one it would be none.
bool LearnedPolicy::is_behind_two() const {
  const std::size_t period = period_detector_.period();
  return period_detector_.position() + 1 == period && in_a_row_ >= 2 * period && recorder_.size() >= 2 * period;
}

// Evictions are planned with a copy unless nothing writes to the buffer. Only after a buffer has been evicted twice do
// digests show that nothing has changed it, or that something now does.
void LearnedPolicy::learn_anew_if_mistaken() {
  PlannedIteration& known = known_[current_];
  if (!is_behind_two() || planning_.begun() || known.corrections >= kMostCorrections || rewriting() != nullptr) return;
  std::size_t mistaken = 0;
  for (const PlannedGap& gap : known.plan.gaps) {
    const Actor& actor = known.actors[gap.buffer];
    if (actor.alive() && actor.state->was_found_unchanged() != known.unchanged[gap.buffer]) ++mistaken;
  }
  if (mistaken == 0 || mistaken < known.plan.gaps.size() / kTolerated) return;
  ++known.corrections;
  learn();
}

// The plan counts on kernels that are never run again by now.
void LearnedPolicy::learn_anew_if_refused() {
  if (KernelTrial::refusals() == known_[current_].planned_without || rewriting() == nullptr || planning_.begun())
    return;
  if (!is_behind_two()) return;
  learn();
}

// The plan counts on pages that are assigned for good, and they are not. Copies need fewer mapping calls than contents that
// are dropped, so where these calls are counted others may be faster.
void LearnedPolicy::learn_anew_if_slower() {
  PlannedIteration& known = known_[current_];
  if (known.mapping != Mapping::kForGood || recompute_plans_ != RecomputePlans::kJoint || schedules_ != nullptr) return;
  if (planning_.begun() || !is_behind_two()) return;
  const double measured_ns = assignment_.unassigned_ms(current_) * 1e6;
  if (measured_ns <= kTooSlow * known.plan.predicted_ns) return;
  kept_plan_.emplace(std::move(known), measured_ns);
  known = {};
  learn();
}

// The obstacle to drops in its plan, which has none.
RecomputeObstacles::Plan LearnedPolicy::obstacle_of(const PlannedIteration& known) {
  using Kind = RecomputeObstacles::Plan;
  const Plan& plan = known.plan;
  if (plan.fits && plan.gaps.empty()) return Kind::kMovesNothing;
  if (!known.all_known) return recompute_obstacles().latest_may_wait ? Kind::kHostWaits : Kind::kUnknownAccesses;
  if (!plan.fits) return Kind::kUnfit;
  if (!known.has_lineage) return Kind::kOtherRoles;
  switch (plan.no_drops) {
    case NoDrops::kInputsGone:
      return Kind::kInputsGone;
    case NoDrops::kNotRepeatable:
      return Kind::kNotRepeatable;
    case NoDrops::kSlower:
      break;
  }
  return Kind::kCopies;
}

void LearnedPolicy::adopt() {
  known_[planned_].plan = planning_.take();
  ++plans_;
  const std::optional<Kept> kept = std::exchange(kept_plan_, std::nullopt);
  if (const Plan& made = known_[planned_].plan;
      kept.has_value() && (!made.fits || kTooSlow * made.predicted_ns >= kept->measured_ns)) {
    known_[planned_] = kept->iteration;
    known_[planned_].mapping = Mapping::kEachTime;
  }
  Plan& plan = known_[planned_].plan;
  if (plan.rewriting != nullptr) {
    recompute_obstacles().dropping_plans.fetch_add(1, std::memory_order_relaxed);
  } else {
    recompute_obstacles().note(obstacle_of(known_[planned_]), plan, known_[planned_].profile, heap_.limit());
  }
  if (!plan.fits) plan = {};
}

PolicyStatistics LearnedPolicy::statistics() const {
  PolicyStatistics all = reactive_.statistics();
  // Includes the times when buffers got permanent addresses according to the plan, or lost them.
  all.plans = plans_ + assignment_.changes();
  all.divergences = divergences_;
  const Plan& plan = known_[current_].plan;
  all.predicted_step_ns = plan.fits ? static_cast<std::uint64_t>(plan.predicted_ns) : 0;
  return all;
}

std::vector<BlockState*> LearnedPolicy::blocks_of(std::span<const std::uint32_t> names) const {
  std::vector<BlockState*> blocks;
  for (const std::uint32_t name : names) {
    if (const Actor& actor = known_[current_].actors[name]; actor.alive()) blocks.push_back(actor.state);
  }
  return blocks;
}

void LearnedPolicy::drop_as_planned() {
  const Rewriting* const r = rewriting();
  if (r == nullptr) return;
  for (BlockState* const block : blocks_of(r->drops[period_detector_.position()])) drop_(*block);
}

std::vector<const BlockState*> LearnedPolicy::recomputed() const {
  const Rewriting* const r = rewriting();
  if (r == nullptr) return {};
  const std::vector<BlockState*> blocks = blocks_of(r->recomputations[period_detector_.position()]);
  return {blocks.begin(), blocks.end()};
}

// How many of the operands, from the first on, have the sizes of those that were learned.
std::size_t LearnedPolicy::as_learned(const Profile& profile, std::span<const std::uint32_t> names) const {
  const auto [name, operand] = std::ranges::mismatch(names, operands_, [&](std::uint32_t one, const BlockState* state) {
    if (one == kNoBuffer) return true;
    const Block& block = *state->block;
    return profile.buffers[one].contents == (block.is_slab() ? block.bytes() : block.contents_end());
  });
  return static_cast<std::size_t>(name - names.begin());
}

void LearnedPolicy::bind() {
  PlannedIteration& known = known_[current_];
  const std::span<const std::uint32_t> names = known.profile.operands(period_detector_.position());
  const bool by_kind = by_kind_ || period_detector_.matched_by_kind();
  // Slabs, which come last, are identified by their order if there are equally many; a wrong guess costs a copy.
  const std::size_t bound = by_kind                            ? as_learned(known.profile, names)
                            : names.size() == operands_.size() ? names.size()
                                                               : own_pages_;
  // Tokens can be equal although fewer operands were learned: an operation taken for the expected one had others.
  for (std::size_t i = 0; i < std::min(bound, names.size()); ++i) {
    if (names[i] != kNoBuffer) known.actors[names[i]] = {operands_[i], operands_[i]->block->serial()};
  }
}

void LearnedPolicy::submitted(StreamIndex stream) {
  if (durations_.has_begun()) durations_.end(clock_.handle_of(stream));
  assignment_.submitted(submitted_ns_);
  if (!following_) return act_without_plan(stream);
  if (versions_ != nullptr) drop_as_planned();
  act_as_planned(stream);
}

void LearnedPolicy::act_without_plan(StreamIndex stream) {
  resident_set_.submitted(stream);
  if (!resident_set_.is_active()) reactive_.submitted(stream);
}

void LearnedPolicy::act_as_planned(StreamIndex stream) {
  // Without evictions nobody waits for room.
  if (!acts()) return;
  const std::size_t index = period_detector_.position();
  const std::size_t place = rewriting() == nullptr ? index : rewriting()->place_of[index];
  if (unfenced_ns_ >= kFenceEveryNs || leaves_clean(place)) {
    unfenced_ns_ = 0;
    static_cast<void>(clock_.fence(stream));
    marks_.push_back({{stream, clock_.submitted(stream)}, submitted_ns_});
    if (marks_.size() > kMostMarks) marks_.pop_front();
    // Evicted buffers will want their addresses back when there is less time than now.
    if (!assignment_.is_in_force(current_) && heap_.has_stale() && is_far_ahead()) heap_.sweep_stale(kSweptAtOnce);
  }
  act_at(place);
}

// Whether something is evicted after this operation without a copy, whose end would tell when its pages are free.
bool LearnedPolicy::leaves_clean(std::size_t place) const {
  const Plan& plan = known_[current_].plan;
  return std::ranges::any_of(plan.evictions[place], [&](std::uint32_t gap) { return plan.gaps[gap].clean_units > 0; });
}

void LearnedPolicy::ran_again(std::uint32_t n) {
  const std::size_t index = period_detector_.position();
  const std::size_t place = rewriting()->place_of[index] - rewriting()->runs_before[index] + n;
  submitted_ns_ += rewriting()->profile.nanoseconds[place];
  assignment_.ran_again(submitted_ns_ - arrived_ns_);
  act_at(place);
}

// `index`: the index of an operation of the plan's profile.
void LearnedPolicy::act_at(std::size_t index) {
  const PlannedIteration& known = known_[current_];
  ++acted_;
  for (const std::uint32_t gap : known.plan.evictions[index]) evict(known.plan.gaps[gap]);
  for (const std::uint32_t gap : known.plan.fetches[index]) {
    const Actor* const actor = actor_of(known.plan.gaps[gap]);
    const std::uint64_t places = known.plan.evictions.size();
    const std::uint64_t distance = (known.plan.gaps[gap].next_use + places - index - 1) % places + 1;
    if (actor != nullptr) returns_.push_back({*actor, acted_ + distance});
  }
  poll_returns();
}

// Buffers that the plan does not fetch are not used in this iteration, as far as it knows.
void LearnedPolicy::sort_by_next_use(std::span<EvictionUnit*> units) const {
  const PlannedIteration& known = known_[current_];
  if (!following_ || known.plan.gaps.empty()) return;
  const std::size_t position = period_detector_.position();
  const std::size_t index = rewriting() == nullptr ? position : rewriting()->place_of[position];
  const std::uint64_t places = known.plan.evictions.size();
  std::unordered_map<const BlockState*, std::uint64_t> distances;
  for (const PlannedGap& gap : known.plan.gaps) {
    const Actor* const actor = actor_of(gap);
    if (!gap.is_fetched || actor == nullptr || !actor->alive()) continue;
    const std::uint64_t distance = (gap.next_use + places - index - 1) % places + 1;
    const auto [known_gap, is_new] = distances.try_emplace(actor->state, distance);
    if (!is_new) known_gap->second = std::min(known_gap->second, distance);
  }
  const auto distance_of = [&](const EvictionUnit* unit) {
    const auto found = distances.find(unit->whole);
    return found == distances.end() ? places + 1 : found->second;
  };
  std::ranges::stable_sort(units, std::greater<>(), distance_of);
}

// Null: scratch memory of an operation that runs again.
const LearnedPolicy::Actor* LearnedPolicy::actor_of(const PlannedGap& gap) const {
  const PlannedIteration& known = known_[current_];
  const std::uint32_t name = known.plan.rewriting == nullptr ? gap.buffer : known.plan.rewriting->names[gap.buffer];
  return name == kNoBuffer ? nullptr : &known.actors[name];
}

void LearnedPolicy::evict(const PlannedGap& gap) {
  const Actor* const known = actor_of(gap);
  if (known == nullptr) return;
  const Actor& actor = *known;
  if (actor.alive()) residency_.begin_evictions(*actor.state, gap.units, EvictReason::kPlanned);
}

// A host that is just ahead of the device asks again soon. One that is far ahead asks too late, but can afford to wait.
void LearnedPolicy::poll_returns() {
  while (!returns_.empty()) {
    const auto& [actor, used_at] = returns_.front();
    if (used_at > acted_ && actor.alive() && !residency_.prefetch(*actor.state, false, FetchReason::kPlanned)) {
      if (assignment_.is_in_force(current_) || !is_far_ahead()) return;
      if (!residency_.prefetch(*actor.state, true, FetchReason::kPlanned)) return;
    }
    returns_.pop_front();
  }
}

bool LearnedPolicy::is_far_ahead() { return lead_ns() >= kFarAheadNs; }

std::uint64_t LearnedPolicy::lead_ns() {
  while (!marks_.empty() && clock_.passed(marks_.front().fence)) {
    passed_ns_ = marks_.front().ns;
    marks_.pop_front();
  }
  return submitted_ns_ - passed_ns_;
}

void LearnedPolicy::allocated(const Block& block) {
  learn_repeats();
  recorder_.allocated(block.serial(), block.bytes());
}

void LearnedPolicy::pinned(const Block& block) {
  learn_repeats();
  recorder_.pinned(block.serial());
}

void LearnedPolicy::freed(const Block& block) {
  learn_repeats();
  recorder_.freed(block.serial());
}

std::unique_ptr<EvictionPolicy> make_learned_policy(const PolicyParts& parts) {
  return std::make_unique<LearnedPolicy>(parts);
}

}  // namespace thermocline
