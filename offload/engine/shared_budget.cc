// SPDX-License-Identifier: Apache-2.0
// A budget that changes while the program runs (offload/sharing). It is raised when the engine or its caller asks, and
// lowered by evicting as for any other need of room. An operation that exceeds it waits until others give back memory.
#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "driver/undisturbed.h"
#include "offload/engine/engine_state.h"
#include "offload/sharing/budget_source.h"

namespace thermocline {
namespace {

constexpr std::chrono::milliseconds kBetweenTurns{1};

constinit thread_local int amid_parts = 0;

}  // namespace

AmidParts::AmidParts() { ++amid_parts; }
AmidParts::~AmidParts() { --amid_parts; }
bool AmidParts::now() { return amid_parts > 0; }

bool Engine::State::raise_budget(Bytes wanted) {
  if (options.budget_source == nullptr || wanted <= budget_bytes) return false;
  return take_budget(options.budget_source->raise(std::min(wanted, device_total)));
}

bool Engine::State::take_budget(Bytes now) {
  now = std::min(now, device_total);
  if (now <= budget_bytes) return false;
  budget_bytes = now;
  show_room();
  if (leaving_free == 0) limit_pages();
  return true;
}

bool Engine::State::may_fit_later(Bytes wanted) const {
  return options.budget_source != nullptr && wanted > budget_bytes && wanted <= device_total &&
         options.budget_source->may_have_later(wanted);
}

Status Engine::State::make_operands_resident_in_lease(FetchReason reason) {
  const Bytes needed = operand_bytes();
  raise_budget(needed);
  const Status status = residency.make_resident(operands, reason);
  return status.is_out_of_memory() && may_fit_later(needed) ? Status::not_ready() : status;
}

// Memory that cannot be evicted keeps its part of the budget.
Status Engine::State::lower_budget(Bytes budget) {
  budget = std::max(budget, external_bytes);
  if (budget >= budget_bytes) return {};
  const bool rests = !works();
  const Status status = lower_budget_to(budget);
  if (rests) rested_at = calls();
  return status;
}

Status Engine::State::lower_budget_to(Bytes budget) {
  reclaim();
  if (Status status = recompute_all(); !status.ok()) return status;
  // Memory that is left free for the driver stays free.
  const auto limit = [&] {
    return leaving_free == 0 ? budget - external_bytes : std::min(budget - external_bytes, heap.limit());
  };
  const Status status = residency.make_room_for_limit(limit());
  if (!status.ok()) {
    budget = std::max(budget, heap.created_bytes() + external_bytes);
    if (budget >= budget_bytes || !heap.set_limit(limit()).ok()) return status;
  }
  budget_bytes = budget;
  show_room();
  options.budget_source->lowered(budget);
  return status;
}

std::uint64_t Engine::State::calls() const {
  const CacheTotals cached = caches.totals();
  return counters.allocations + counters.frees + cached.takes + cached.puts + operation;
}

bool Engine::State::begin_stall(StreamHandle handle, std::span<const MemoryAccess> list, const OperationInfo& what) {
  if (!stalls.has_value()) return false;
  if (!residency.any_nonresident()) {
    stalls->pause();
    return false;
  }
  const bool crosses_link = what.operator_class == OperatorClass::kCopy && list.size() == 1;
  return stalls->begin(handle, !crosses_link);
}

bool Engine::State::works() { return calls() != rested_at && !clock.passed(clock.newest()); }

std::optional<Engine::BudgetUse> Engine::try_budget_use() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return std::nullopt;
  State& state = *state_;
  const Bytes held = state.held_block_bytes;
  const MigrationStatistics& copied = state.migration.statistics();
  return BudgetUse{
      .budget = state.budget_bytes,
      .demand = held - std::min(held, state.residency.asleep_bytes()) + state.external_bytes,
      .in_use = state.heap.created_bytes() + state.external_bytes,
      .activity = state.calls(),
      .works = state.works(),
      .times = state.stalls ? state.stalls->times(copied.evicted_bytes, copied.restored_bytes, state.migration.link())
                            : StallTimes()};
}

void Engine::wait_for_turn(std::unique_lock<Mutex>& lock) {
  BudgetSource* const source = state_->options.budget_source;
  if (source == nullptr || AmidParts::now() || !source->waits_for_turn()) return;
  if (state_->stalls) state_->stalls->pause();
  do {
    lock.unlock();
    std::this_thread::sleep_for(kBetweenTurns);
    lock.lock();
  } while (source->waits_for_turn());
}

void Engine::wait_for_turn() {
  std::unique_lock lock(mutex_);
  wait_for_turn(lock);
}

void Engine::raise_budget() {
  const Undisturbed undisturbed;
  const std::lock_guard lock(mutex_);
  state_->take_budget(state_->options.budget_source->grow());
}

}  // namespace thermocline
