// SPDX-License-Identifier: Apache-2.0
// Prepares and commits an operation in the ordinary case: it has come before (known_operations.h), its operands are the
// same allocations, all are on the device, and a host wait is not needed. All other cases are left to resolve(),
// prepare() and commit(). This does a part of what these do, under the same rules.
#include <mutex>
#include <thread>
#include <utility>

#include "driver/check.h"
#include "offload/engine/engine_state.h"

namespace thermocline {

// Facts about the operands of a known operation.
struct Engine::State::Found {
  bool used_elsewhere = false;  // the stream has to wait for other work
  bool may_hold_tables = false;
  std::uint32_t pins = 0;
};

// Whether the operands are the same allocations and are all resident.
[[gnu::always_inline]] inline bool Engine::State::are_as_they_were(const KnownOperation& known, StreamIndex in,
                                                                   Found* out) {
  for (std::size_t i = 0; i < known.operand_count; ++i) {
    const BlockState& state = *known.operands.data()[i];
    const Block* const block = state.block;
    if (block == nullptr || block->serial() != known.serials.data()[i] || !state.resident()) return false;
    out->used_elsewhere |= !state.wait_for.is_of_none_but(in) || !state.former.is_of_none_but(in);
    out->may_hold_tables |= References::may_hold_a_table(*block);
    out->pins |= state.pins;
  }
  return true;
}

// Everything that is left out depends on states in which this returns false. So nothing is dropped, nor about to be; all that was
// submitted before was submitted in order, or has passed; and a kernel on trial is rehearsed elsewhere.
bool Engine::State::is_only_noted(const OperationInfo& what) const {
  const RelaunchInfo* const relaunch = what.relaunch;
  return relaunch != nullptr && relaunch->same_as != 0 && tracks.load(std::memory_order_relaxed) &&
         !options.drops_all && !versions->any_dropped() && overwriting.empty() && not_vouched_for.empty() &&
         !clock.may_be_blocked() &&
         (verification == nullptr || (verification->is_idle() && !verification->may_rehearse(relaunch->trial))) &&
         !may_trust();
}

// Makes the stream wait for other work in progress. False: the host would have to wait, without the lock.
bool Engine::State::wait_for_others(const KnownOperation& known, StreamIndex in) {
  for (const BlockState* const state : known.all_operands()) {
    const StreamClock::Deferring waits(clock, options.waits_without_lock);
    if (!clock.wait_all(in, state->wait_for).ok() || !clock.wait_all(in, state->former).ok()) return false;
  }
  return true;
}

[[gnu::always_inline]] inline void Engine::State::tell_of_arrival(std::uint64_t known) {
  const Bytes live = live_bytes(), blocks = live_block_bytes();
  if (known != 0 && policy->arrives_as_expected({known, info.nanoseconds, live, blocks})) [[likely]]
    return;
  const InPlace as_planned(clock, false);
  policy->arriving({info, accesses, operands, live, blocks, known});
  if (recompute_policy == nullptr) return;
  // Nothing is dropped: what the plan would run again here need not.
  for (std::uint32_t run = 0, planned = recompute_policy->planned_runs(); run < planned; ++run)
    recompute_policy->ran_again(run);
}

// note_arrival(), where is_only_noted().
[[gnu::always_inline]] inline void Engine::State::note_repeated(const KnownOperation& known) {
  arrived_in = std::this_thread::get_id();
  is_vouched_for = true;
  versions->arrives(known.form, info.relaunch->id, info.nanoseconds);
}

// Whether the kernel stores no addresses in the small buffers that it is given, or is not looked at now.
[[gnu::noinline]] bool Engine::State::is_not_looked_at(const OperationInfo& what) {
  return what.relaunch != nullptr && looks.passes(what);
}

// resolve() and prepare() for an operation that has come before, if everything that it accesses is on the device.
[[gnu::always_inline]] inline bool Engine::State::repeat(std::span<const MemoryAccess> list, const OperationInfo& what,
                                                         StreamHandle handle) {
  if (!is_undisturbed() || (what.follows && !references.empty())) return false;
  const bool is_noted = notes_origins();
  if (is_noted && !is_only_noted(what)) [[unlikely]]
    return false;
  const KnownOperation* const known = known_operations.find(list, what);
  if (known == nullptr) return false;
  const StreamIndex in = clock.index_of(handle);
  Found found;
  if (!are_as_they_were(*known, in, &found)) return false;
  // Pinned buffers may be written by unseen work.
  if (is_noted && (known->placement != placement.load(std::memory_order_relaxed) || found.pins != 0 ||
                   !held_ranges.empty())) [[unlikely]]
    return false;
  if (found.used_elsewhere && !wait_for_others(*known, in)) return false;
  // The pointers that it stores may have to be probed (resolve()). Comes last: it counts the launch.
  const bool may_store = looks_at_tables && list.size() > 1 && what.is_kernel();
  if (may_store && found.may_hold_tables && !is_not_looked_at(what)) return false;
  stream = in;
  info = what;
  is_part = false;
  accesses = list.size();
  given = list;
  given_everything = false;
  ++operation;
  ++counters.repeated_operations;
  residency.hold_others();
  operands.resize(known->operand_count);
  for (std::size_t i = 0; i < known->operand_count; ++i) {
    BlockState* const state = operands.data()[i] = known->operands.data()[i];
    residency.hold_resident(*state);
    state->whole = true;
    state->may_write = known->may_write.data()[i];
  }
  named_operands = told_operands = known->operand_count;
  if (is_noted) note_repeated(*known);
  if (policy->wants().arrivals && expects_shortage()) tell_of_arrival(found.pins == 0 ? known->id : 0);
  if (policy->wants().submitting) {
    const InPlace as_planned(clock, false);
    policy->submitting(handle);
  }
  return true;
}

[[gnu::always_inline]] inline void Engine::State::commit_repeated(bool completed) {
  ++counters.operations;
  const Use use{stream, clock.advance(stream)};
  for (BlockState* const state : operands) {
    residency.accessed(*state, operation);
    state->block->uses.add(use);
  }
  if (versions != nullptr) versions->submitted();
  if (completed) clock.synchronized(stream);
  if (anything_follows()) {
    const InPlace as_planned(clock, false);
    note_submitted();
  }
}

// Whether note_submitted() would do anything.
[[gnu::always_inline]] inline bool Engine::State::anything_follows() const {
  return looks.any_under_way() || host_mappings.has_unseen() || host_mappings.has_late() || policy->wants().submitted ||
         migration.files() != nullptr;
}

Operation Engine::begin(StreamHandle stream, std::span<const MemoryAccess> accesses, const OperationInfo& info,
                        bool again) {
  std::unique_lock lock(mutex_);
  const bool is_repeated = !again && state_->repeat(accesses, info, stream);
  lock.release();
  return is_repeated ? Operation(this, {}, true) : begin_slowly(stream, accesses, info, again);
}

void Operation::commit(bool completed) {
  THERMOCLINE_CHECK(engine_ != nullptr && status_.ok(), "an operation is committed once, after it was prepared");
  if (is_repeated_) {
    engine_->state_->commit_repeated(completed);
  } else {
    engine_->state_->commit(completed);
  }
  const std::lock_guard unlocks(std::exchange(engine_, nullptr)->mutex_, std::adopt_lock);
}

}  // namespace thermocline
