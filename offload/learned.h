// SPDX-License-Identifier: Apache-2.0
// Offloading with a history: recognises the iteration, profiles it, plans it, and then acts by place in the iteration:
// buffers are copied out right behind their last use before the gap, and come back in order of next use as early as
// memory permits.
//
// While the program does what it did before, this decides; from the first operation that does not match on, Reactive
// does, until the program is back on a known path or has shown a new one twice. A plan is only advice: whatever it
// says, Residency keeps every promise.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "allocator/heap.h"
#include "allocator/stream_clock.h"
#include "offload/engine.h"
#include "offload/migration.h"
#include "offload/planner.h"
#include "offload/profile.h"
#include "offload/recogniser.h"
#include "offload/residency.h"

namespace thermocline {

class Learned {
 public:
  Learned(const Heap& heap, StreamClock& clock, Migration& migration, Residency& residency, Bytes min_offload_bytes)
      : heap_(heap),
        clock_(clock),
        migration_(migration),
        residency_(residency),
        min_offload_bytes_(min_offload_bytes) {}

  // An operation that is being prepared.
  struct Arrival {
    OperationInfo info;
    std::uint64_t touches = 0;              // as the caller counted them
    std::span<BlockState* const> operands;  // in order of their first touches, each once
    Bytes live_bytes = 0;                   // as the program asked for them
    Bytes live_block_bytes = 0;             // whole blocks
  };
  void arriving(const Arrival& arrival);
  // It has been submitted. Never blocks.
  void after_operation(StreamIndex stream);
  // The block is about to be freed.
  void freed(const Block& block);

  // The program says that a step ends here.
  void step();

  // True while the plan decides.
  bool following() const { return following_; }
  std::uint64_t plans() const { return plans_; }
  std::uint64_t divergences() const { return divergences_; }
  // What the plan in force makes of an iteration; 0 without a plan.
  std::uint64_t predicted_ns() const { return plan_.fits ? static_cast<std::uint64_t>(plan_.predicted_ns) : 0; }

 private:
  // A block that plays a buffer of the profile.
  struct Actor {
    BlockState* state = nullptr;
    std::uint64_t serial = 0;
    bool alive() const { return state != nullptr && state->block != nullptr && state->block->serial() == serial; }
  };

  std::uint64_t token_of(const Arrival& arrival) const;
  std::uint64_t nanoseconds_of(const Arrival& arrival) const;
  void learn();
  void bind();
  void leave(const PlannedGap& gap);
  void poll_returns();

  const Heap& heap_;
  StreamClock& clock_;
  Migration& migration_;
  Residency& residency_;
  const Bytes min_offload_bytes_;

  Recogniser recogniser_;
  ProfileRecorder recorder_;
  Profile profile_;
  Plan plan_;
  std::vector<Actor> actors_;  // by buffer of the profile
  std::deque<Actor> returns_;  // on their way back, what is needed first first
  bool following_ = false;
  std::uint64_t unfenced_ns_ = 0;  // device time, as far as known, since the last fence
  std::uint64_t plans_ = 0, divergences_ = 0;
  // Of the operation in preparation: the blocks that one buffer has to itself, then slabs.
  std::vector<BlockState*> operands_;
  std::size_t own_pages_ = 0;  // how many are not slabs
  std::vector<ProfileRecorder::Operand> scratch_;
};

}  // namespace thermocline
