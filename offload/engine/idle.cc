// SPDX-License-Identifier: Apache-2.0
#include "offload/engine/idle.h"

#include <algorithm>
#include <mutex>

#include "driver/undisturbed.h"
#include "offload/engine/engine_state.h"

namespace thermocline {
namespace {

// An idle time this many times longer than required was worth creating the memory again.
constexpr std::uint64_t kWorthIt = 8;
constexpr std::uint64_t kMostRequired = 64;  // times the setting

}  // namespace

void IdleWatch::goes_on(std::uint64_t now_ns) {
  if (!given_back_ns_.has_value()) return;
  const bool was_soon = now_ns - *given_back_ns_ < kWorthIt * required_idle_ns_;
  required_idle_ns_ = was_soon ? std::min(2 * required_idle_ns_, kMostRequired * after_ns_) : after_ns_;
  given_back_ns_.reset();
}

bool IdleWatch::is_due(std::uint64_t now_ns, std::uint64_t activity) {
  if (after_ns_ == 0) return false;
  if (!since_ns_.has_value() || activity != activity_) {
    goes_on(now_ns);
    activity_ = activity;
    since_ns_ = now_ns;
  }
  return !given_back_ns_.has_value() && now_ns - *since_ns_ >= required_idle_ns_;
}

void Engine::look_for_idleness(std::uint64_t now_ns) {
  const Undisturbed undisturbed;
  State& state = *state_;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    // The thread that holds the lock is not idle.
    if (!lock.owns_lock() || !state.idle.is_due(now_ns, state.activity())) return;
    // Memory that could not be given back yet is given back at the next look.
    if (state.give_back_pages()) state.idle.given_back(now_ns);
    state.lower_host_claim();
  }
  state.host.trim(state.options.idle_reserve_bytes);
}

std::uint64_t Engine::State::activity() const {
  const CacheTotals cached = caches.totals();
  const MigrationStatistics& moved = migration.statistics();
  return counters.allocations + counters.frees + cached.takes + cached.puts + moved.evicted_bytes +
         moved.restored_bytes;
}

bool Engine::State::give_back_pages() {
  const bool all_passed = clock.passed(clock.newest());
  reclaim();
  note_peaks();
  // If pages of addresses have assigned physical pages (static_assignment.h), all of these are part of a plan.
  const bool have_assigned_pages = heap.assigned_pages().has_any();
  if (!have_assigned_pages) static_cast<void>(heap.sweep(Wait::kNo));
  migration.collect_retired();
  const auto excess = [&] {
    const Bytes unused = have_assigned_pages ? 0 : heap.unused_bytes();
    return unused - std::min(unused, options.idle_reserve_bytes);
  };
  // Memory that the driver refuses to take back stays, and is tried again.
  if (excess() > 0) static_cast<void>(heap.trim(heap.created_bytes() - excess()));
  return all_passed && excess() < heap.page_bytes();
}

}  // namespace thermocline
