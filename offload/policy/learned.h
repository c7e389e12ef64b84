// SPDX-License-Identifier: Apache-2.0
// Offloading with a history: detects the iteration, profiles it, plans it, and then acts by operation index. Buffers
// are copied out right after their last use before a gap, and are prefetched in order of next use, as early as memory
// permits. The plan is made on a separate thread during the iteration after the second equal one, and is taken when
// that iteration has ended, which waits for planning if necessary.
//
// While the program repeats itself, the plan decides. From the first operation that does not match, ReactivePolicy
// decides, until the program is back in a known iteration or has shown a new one twice. A plan is only advice:
// Residency stays correct whatever the plan says.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "offload/planning/duration_meter.h"
#include "offload/planning/period_detector.h"
#include "offload/planning/planner.h"
#include "offload/planning/profile.h"
#include "offload/policy/eviction_policy.h"
#include "offload/policy/reactive.h"
#include "offload/policy/recompute_policy.h"
#include "offload/policy/resident_set.h"
#include "offload/policy/static_assignment.h"
#include "offload/recompute/obstacles.h"
#include "offload/recompute/rewriting.h"

namespace thermocline {

class LearnedPolicy final : public EvictionPolicy, public RecomputePolicy {
 public:
  explicit LearnedPolicy(const PolicyParts& parts)
      : EvictionPolicy({.arrivals = true}),
        reactive_(parts),
        resident_set_(parts),
        durations_(parts.driver),
        heap_(parts.heap),
        clock_(parts.clock),
        migration_(parts.migration),
        residency_(parts.residency),
        min_offload_bytes_(parts.options.min_offload_bytes),
        assignment_(parts.driver, parts.heap, parts.residency) {}

  void arriving(const Arrival& arrival) override;
  void missed() override { reactive_.missed(); }
  void submitting(StreamHandle stream) override {
    // No operation is timed while a plan decides: durations are known by then, and the iteration is measured instead.
    if (following_) {
      assignment_.submitting(stream);
    } else {
      durations_.begin(token_, stream);
    }
  }
  void submitted(StreamIndex stream) override;
  // Prefetches take the room that has been freed since the last operation, as the plan's timing assumes
  // (plan_timing.cc). The allocation then waits for evictions. In the other order the prefetch would wait, and come
  // late if the host is far ahead of the device.
  void allocating() override {
    count_arrived();
    if (following_) poll_returns();
  }
  void step() override;

  void allocated(const Block& block) override;
  void pinned(const Block& block) override;
  void freed(const Block& block) override;

  VictimOrder* spill_order() override { return &spill_order_; }
  bool is_hurried() override {
    count_arrived();
    return following_ && !is_far_ahead();
  }

  Block* reserved_block(Bytes bytes) override {
    count_arrived();
    return following_ ? assignment_.reserved_block(current_, period_detector_.position(), bytes) : nullptr;
  }
  void placed(Bytes bytes, Block& block) override {
    count_arrived();
    if (following_) assignment_.occupied(current_, period_detector_.position(), bytes, block);
  }
  bool keeps_addresses(const Block& block) override { return assignment_.vacated(block); }
  void release_addresses() override { assignment_.give_up(); }

  RecomputePolicy* recompute() override { return this; }
  PolicyStatistics statistics() const override;

  void recompute_with(const Versions& versions, RecomputePlans plans, const ScheduleSource* schedules,
                      std::function<void(BlockState&)> drop) override {
    learn_repeats();
    versions_ = &versions;
    recompute_plans_ = plans;
    schedules_ = schedules;
    drop_ = std::move(drop);
    period_detector_.begin_at_the_lowest([this](std::size_t period) { return versions_->content_bytes(period); });
  }
  std::uint32_t planned_runs() const override {
    const Rewriting* r = rewriting();
    return r == nullptr ? 0 : r->runs_before[period_detector_.position()];
  }
  void ran_again(std::uint32_t n) override;
  std::vector<const BlockState*> recomputed() const override;
  void distrusts() override {
    if (residency_.is_trusting()) assignment_.diverged();
  }
  bool gains_by_trust() const override { return following_ ? !moves_nothing() : !resident_set_.is_active(); }

 private:
  // The order in which host copies go to the spill file: while a plan is followed, farthest next use first.
  class SpillOrder final : public VictimOrder {
   public:
    explicit SpillOrder(const LearnedPolicy& policy) : policy_(policy) {}
    void sort(std::span<EvictionUnit*> candidates) override { policy_.sort_by_next_use(candidates); }

   private:
    const LearnedPolicy& policy_;
  };
  void sort_by_next_use(std::span<EvictionUnit*> units) const;

  // The block that a buffer of the profile is in now.
  struct Actor {
    BlockState* state = nullptr;
    std::uint64_t serial = 0;
    bool alive() const { return state != nullptr && state->block != nullptr && state->block->serial() == serial; }
  };

  // A plan is followed that evicts or drops something.
  bool acts() const { return following_ && (!known_[current_].plan.gaps.empty() || rewriting() != nullptr); }
  // A plan is followed by which everything fits, and stays.
  bool moves_nothing() const { return following_ && known_[current_].plan.fits && !acts(); }
  const Rewriting* rewriting() const { return following_ ? known_[current_].plan.rewriting.get() : nullptr; }
  // The blocks that these buffers of the profile are in now.
  std::vector<BlockState*> blocks_of(std::span<const std::uint32_t> names) const;
  void drop_as_planned();
  bool leaves_clean(std::size_t place) const;
  const Actor* actor_of(const PlannedGap& gap) const;
  void act_at(std::size_t index);
  bool comes_as_before(const Arrival& arrival);
  void count_arrived();
  void learn_repeats();
  void note_how_it_came(const Arrival& arrival, std::size_t sure);
  std::uint64_t token_of(const Arrival& arrival) const;
  std::uint64_t kind_of(const OperationInfo& info) const;
  static bool counts_by_kind(const OperationInfo& info);
  std::size_t as_learned(const Profile& profile, std::span<const std::uint32_t> names) const;
  // `own_bytes`: bytes of the operands that have blocks of their own.
  std::uint64_t nanoseconds_of(const OperationInfo& info, Bytes own_bytes) const;
  Bytes list_operands(std::span<BlockState* const> operands);
  ProfileRecorder::Operand profiled(const BlockState& state, bool takes_digests) const;
  void learn();
  void learn_anew_if_mistaken();
  void learn_anew_if_refused();
  void learn_anew_if_slower();
  bool is_behind_two() const;
  void adopt();
  // `before`: the position before this operation.
  void match(std::size_t before);
  void bind();
  // While following: the device has so much work ahead that the host need not hurry.
  bool is_far_ahead();
  void act_without_plan(StreamIndex stream);
  void act_as_planned(StreamIndex stream);
  void evict(const PlannedGap& gap);
  void poll_returns();
  // Estimated duration of the work that the device still has ahead.
  std::uint64_t lead_ns();

  SpillOrder spill_order_{*this};
  ReactivePolicy reactive_;   // decides while there is no plan to follow,
  ResidentSet resident_set_;  // or this does
  DurationMeter durations_;
  Heap& heap_;
  StreamClock& clock_;
  Migration& migration_;
  Residency& residency_;
  const Bytes min_offload_bytes_;
  const Versions* versions_ = nullptr;
  RecomputePlans recompute_plans_ = RecomputePlans::kJoint;
  const ScheduleSource* schedules_ = nullptr;
  std::function<void(BlockState&)> drop_;

  StaticAssignment assignment_;
  PeriodDetector period_detector_;
  ProfileRecorder recorder_;
  // A known iteration and its plan. Without evictions there is no plan for it, or none yet.
  struct PlannedIteration {
    Profile profile;
    Plan plan;
    Bytes limit = 0;            // the heap's, when it was planned
    std::vector<Actor> actors;  // by buffer of the profile
    // By buffer: whether it was assumed to be unchanged although operations may write to it. Then: how often the plan
    // has been made again because that was wrong.
    std::vector<bool> unchanged;
    unsigned corrections = 0;
    std::uint64_t planned_without = 0;  // the number of refused kernels at that time (kernel_trial.h)
    // Whether it was planned with the dataflow of its operations; whether the accesses of all of them are known.
    bool has_lineage = false, all_known = false;
    Mapping mapping = Mapping::kEachTime;  // what its timing counts on
    // By position: the operation that came there last, if it was the expected one. Empty: none.
    struct Came {
      std::uint64_t token = 0, kind = 0;
      bool by_kind = false;
      std::uint64_t nanoseconds = 0;  // when it came again
      ProfileRecorder::Usage usage;
    };
    std::vector<Came> came;
    // By position, as `came`: the operation, and what is compared with it when it comes again. known == 0: none.
    std::vector<Expected> expected;
    void forget_what_came() {
      came.clear();
      expected.clear();
    }
  };
  bool has_planned_room(const PlannedIteration& known) const;
  static RecomputeObstacles::Plan obstacle_of(const PlannedIteration& known);

  std::array<PlannedIteration, PeriodDetector::kIterations> known_;  // by the period detector's number
  std::size_t current_ = 0;                                          // the iteration that is followed
  // An iteration with its plan, and how long it takes, while a plan is made that may be faster.
  struct Kept {
    PlannedIteration iteration;
    double measured_ns;
  };
  std::optional<Kept> kept_plan_;
  Background<Plan> planning_;  // uses the profile of known_[planned_]
  std::size_t planned_ = 0;
  std::uint64_t adopt_at_ = 0;  // the plan in progress is taken at that number of operations
  // To be prefetched, in order of next use. An entry that was fetched for its use before its turn is done, too.
  struct Return {
    Actor actor;
    std::uint64_t used_at;  // by acted_
  };
  std::deque<Return> returns_;
  std::uint64_t acted_ = 0;     // number of plan places passed so far
  std::uint64_t in_a_row_ = 0;  // operations in a row that came as in an iteration
  bool following_ = false;
  std::size_t unsteady_kinds_ = 0;  // when `came` was noted
  // repeats_: operations in a row that came as before. unlearned_: the newest of these, of which the recorder and the
  // period detector (except for its position) have not been told yet. Neither has been told of those that have arrived as
  // expected since count_arrived(); they count in no other member either.
  std::uint64_t repeats_ = 0, unlearned_ = 0;
  std::uint64_t token_ = 0;        // of the operation in preparation
  bool by_kind_ = false;           // the same: its token consists of its kind alone
  bool timed_ = false;             // its duration was given
  std::uint64_t unfenced_ns_ = 0;  // known device time since the last fence
  // Device time of all operations so far; of those known to have passed; and at the arrived operation, which runs after
  // the operations that run again for it.
  std::uint64_t submitted_ns_ = 0, passed_ns_ = 0, arrived_ns_ = 0;
  struct Mark {
    Use fence;
    std::uint64_t ns;
  };
  std::deque<Mark> marks_;
  std::uint64_t plans_ = 0, divergences_ = 0;
  // The blocks of the operation in preparation: first those with a single buffer, then slabs.
  std::vector<BlockState*> operands_;
  std::size_t own_pages_ = 0;  // how many are not slabs
};

}  // namespace thermocline
