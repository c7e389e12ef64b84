// SPDX-License-Identifier: Apache-2.0
// Offloading with a history: recognises the iteration, profiles it, plans it, and then acts by place in the iteration:
// buffers are copied out right behind their last use before the gap, and come back in order of next use as early as
// memory permits. The plan is made on a thread of its own during the iteration that follows the second equal one, and
// is taken when that has ended: always there, however long it took.
//
// While the program does what it did before, this decides; from the first operation that does not match on, Reactive
// does, until the program is back on a known path or has shown a new one twice. A plan is only advice: whatever it
// says, Residency keeps every promise.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "allocator/heap.h"
#include "allocator/stream_clock.h"
#include "offload/operation_info.h"
#include "offload/options.h"
#include "offload/planning/duration_meter.h"
#include "offload/planning/period_detector.h"
#include "offload/planning/planner.h"
#include "offload/planning/profile.h"
#include "offload/policy/aliasing.h"
#include "offload/recompute/rewriting.h"
#include "offload/recompute/versions.h"
#include "offload/residency/migration.h"
#include "offload/residency/residency.h"

namespace thermocline {

class Learned {
 public:
  Learned(const Driver& driver, Heap& heap, StreamClock& clock, Migration& migration, Residency& residency,
          Bytes min_offload_bytes)
      : durations_(driver),
        heap_(heap),
        clock_(clock),
        migration_(migration),
        residency_(residency),
        min_offload_bytes_(min_offload_bytes),
        aliasing_(driver, heap, residency) {}

  // An operation that is being prepared.
  struct Arrival {
    OperationInfo info;
    std::uint64_t accesses = 0;             // as the caller counted them
    std::span<BlockState* const> operands;  // in order of their first accesses, each once
    Bytes live_bytes = 0;                   // as the program asked for them
    Bytes live_block_bytes = 0;             // whole blocks
  };
  void arriving(const Arrival& arrival);
  // All that it waits for has been submitted to `stream`, and it is the next to be.
  void submitting(StreamHandle stream) {
    // Nothing is sampled while a plan decides: by then durations are known, and it is the time that counts.
    if (!timed_ && !following_) durations_.begin(token_, stream);
    if (following_) aliasing_.submitting(stream);
  }
  // It has been submitted. Never blocks.
  void submitted(StreamIndex stream) {
    if (durations_.has_begun()) durations_.end(clock_.handle_of(stream));
    aliasing_.submitted(submitted_ns_);
  }
  // While following, after submitted().
  void after_operation(StreamIndex stream);
  // The block is about to be freed.
  void freed(const Block& block);

  // What versions of contents there are, for plans that drop and recompute some; outlives this.
  void recompute_with(const Versions* versions, RecomputePlans plans) {
    versions_ = versions;
    recompute_plans_ = plans;
  }
  // While following, of the operation that has arrived: calls visit(BlockState&) for what is recomputed before it, and
  // dropped behind it.
  template <class Visit>
  void for_each_remade(Visit visit) const {
    if (const Rewriting* r = rewriting()) visit_actors(r->remakes[period_detector_.position()], visit);
  }
  template <class Visit>
  void for_each_dropped(Visit visit) const {
    if (const Rewriting* r = rewriting()) visit_actors(r->drops[period_detector_.position()], visit);
  }
  // As many operations run again before the one that has arrived as planned.
  std::uint32_t planned_runs() const {
    const Rewriting* r = rewriting();
    return r == nullptr ? 0 : r->runs_before[period_detector_.position()];
  }
  // The n-th of these, from 0, has been submitted, or is not needed.
  void ran_again(std::uint32_t n);

  // Addresses for a buffer that the plan knows: a vacant block to occupy; null: any will do.
  Block* berth(Bytes bytes) {
    return following_ ? aliasing_.berth(current_, period_detector_.position(), bytes) : nullptr;
  }
  // A buffer has got this block to itself.
  void placed(Bytes bytes, Block& block) {
    if (following_) aliasing_.occupied(current_, period_detector_.position(), bytes, block);
  }
  // Its buffer is about to be freed: true if its addresses are to be kept for the next iteration.
  bool keeps(const Block& block) { return aliasing_.vacated(block); }
  // From now on not all accesses are known.
  void distrusts() {
    if (residency_.is_trusting()) aliasing_.diverged();
  }
  // Addresses run short.
  void keep_nothing() { aliasing_.give_up(); }

  // The program says that a step ends here.
  void step();

  // True while the plan decides.
  bool following() const { return following_; }
  // The device has so much to do that the host need not hurry. While following.
  bool is_far_ahead();
  // With the times when what was planned got addresses of its own for good, or lost them.
  std::uint64_t plans() const { return plans_ + aliasing_.changes(); }
  std::uint64_t divergences() const { return divergences_; }
  // What the plan in force makes of an iteration; 0 without a plan.
  std::uint64_t predicted_ns() const;

 private:
  // A block that plays a buffer of the profile.
  struct Actor {
    BlockState* state = nullptr;
    std::uint64_t serial = 0;
    bool alive() const { return state != nullptr && state->block != nullptr && state->block->serial() == serial; }
  };

  const Rewriting* rewriting() const { return following_ ? known_[current_].plan.rewriting.get() : nullptr; }
  template <class Visit>
  void visit_actors(std::span<const std::uint32_t> names, Visit visit) const {
    for (const std::uint32_t name : names) {
      if (const Actor& actor = known_[current_].actors[name]; actor.alive()) visit(*actor.state);
    }
  }
  const Actor* actor_of(const PlannedGap& gap) const;
  void at_place(std::size_t place);
  std::uint64_t token_of(const Arrival& arrival) const;
  std::uint64_t nanoseconds_of(const Arrival& arrival) const;
  void learn();
  void adopt();
  // `before`: the position so far.
  void match(std::size_t before);
  void bind();
  void leave(const PlannedGap& gap);
  void poll_returns();
  // What the device still has before it, by what operations take.
  std::uint64_t lead_ns();

  DurationMeter durations_;
  Heap& heap_;
  StreamClock& clock_;
  Migration& migration_;
  Residency& residency_;
  const Bytes min_offload_bytes_;
  const Versions* versions_ = nullptr;
  RecomputePlans recompute_plans_ = RecomputePlans::kJoint;

  Aliasing aliasing_;
  PeriodDetector period_detector_;
  ProfileRecorder recorder_;
  // What is known of an iteration. Without leaves there is no plan for it, or none yet.
  struct Known {
    Profile profile;
    Plan plan;
    std::vector<Actor> actors;  // by buffer of the profile
  };
  std::array<Known, PeriodDetector::kIterations> known_;  // by the period detector's number
  std::size_t current_ = 0;                               // the iteration that is followed
  Background<Plan> planning_;                             // uses the profile of known_[planned_]
  std::size_t planned_ = 0;
  std::uint64_t adopt_at_ = 0;  // the plan that was begun is taken at that many operations
  std::deque<Actor> returns_;   // on their way back, what is needed first first
  bool following_ = false;
  std::uint64_t token_ = 0;        // of the operation in preparation
  bool timed_ = false;             // its duration was given
  std::uint64_t unfenced_ns_ = 0;  // device time, as far as known, since the last fence
  // Device time of all operations so far, and when fences come in it that are not known to have passed.
  std::uint64_t submitted_ns_ = 0, passed_ns_ = 0;
  struct Mark {
    Use fence;
    std::uint64_t ns;
  };
  std::deque<Mark> marks_;
  std::uint64_t plans_ = 0, divergences_ = 0;
  // Of the operation in preparation: the blocks that one buffer has to itself, then slabs.
  std::vector<BlockState*> operands_;
  std::size_t own_pages_ = 0;  // how many are not slabs
  std::vector<ProfileRecorder::Operand> scratch_;
};

}  // namespace thermocline
