// SPDX-License-Identifier: Apache-2.0
// Sleep and wake (offload/sleep.h). The lock is free while copies are in flight, so the program may continue meanwhile.
#include <algorithm>
#include <optional>

#include "driver/undisturbed.h"
#include "offload/engine/engine_state.h"

namespace thermocline {
namespace {

bool is_stopped(const SleepRequest& request) { return request.stop != nullptr && request.stop->load(); }

UseSet of(Use use) {
  UseSet uses;
  uses.add(use);
  return uses;
}

UseSet uses_of(const EvictionUnit& unit) {
  UseSet uses = unit.whole->block->uses;
  uses.join(unit.uses);
  return uses;
}

// One sleep or wake at a time: together they would evict and fetch the same pages without end.
class OneAtATime {
 public:
  explicit OneAtATime(bool* under_way) : under_way_(*under_way ? nullptr : under_way) {
    if (under_way_ != nullptr) *under_way_ = true;
  }
  ~OneAtATime() {
    if (under_way_ != nullptr) *under_way_ = false;
  }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;

  bool may_go_on() const { return under_way_ != nullptr; }

 private:
  bool* const under_way_;
};

// The most attempts in a row to make way for pinned memory that free none.
constexpr int kMostInVain = 2;

}  // namespace

SleepReport Engine::State::report_of_sleep(const SleepScope& scope, bool no_host) {
  const Residency::Staying staying = residency.staying(scope, no_host);
  SleepReport report;
  report.device_bytes = heap.created_bytes() + external_bytes;
  report.pinned_bytes = staying.pinned;
  report.external_bytes = external_bytes;
  report.in_use_bytes = staying.in_use;
  report.no_host_bytes = staying.no_host;
  report.untagged_bytes = staying.untagged;
  const Bytes told = staying.pinned + staying.in_use + staying.no_host + staying.untagged;
  report.other_bytes = heap.created_bytes() - std::min(heap.created_bytes(), told);
  report.asleep_bytes = residency.asleep_bytes_of(scope.tag);
  return report;
}

// Releases the lock and waits for work that could not be waited for under it.
Status Engine::wait_for_deferred(std::unique_lock<Mutex>& lock) {
  StreamClock& clock = state_->clock;
  const EventHandle event = clock.reference_deferred();
  lock.unlock();
  const Status status = state_->foundation->driver.synchronize(event);
  lock.lock();
  clock.release_reference(event);
  return status;
}

void Engine::wait_for_file(std::unique_lock<Mutex>& lock, const std::shared_ptr<SpillTransfer>& transfer) {
  FileCopies& files = *state_->migration.files();
  lock.unlock();
  files.wait(*transfer);
  lock.lock();
}

// False: it can not be waited for, because a stream is blocked.
bool Engine::wait_for_uses(std::unique_lock<Mutex>& lock, const UseSet& uses) {
  StreamClock& clock = state_->clock;
  {
    const StreamClock::Deferring waits(clock, state_->options.waits_without_lock);
    const Status status = clock.synchronize(uses);
    if (status.ok() || !state_->options.waits_without_lock || !clock.has_deferred()) return status.ok();
  }
  return wait_for_deferred(lock).ok();
}

// Waits for pages still mapped at addresses that work in flight uses. False: no such page can be waited for.
bool Engine::wait_for_pages(std::unique_lock<Mutex>& lock) {
  StreamClock& clock = state_->clock;
  {
    const StreamClock::Deferring waits(clock, state_->options.waits_without_lock);
    const Status status = state_->heap.trim(0, Wait::kYes);
    if (status.ok() || !state_->options.waits_without_lock || !clock.has_deferred()) return false;
  }
  return wait_for_deferred(lock).ok();
}

Residency::Step Engine::State::sleep_more(const SleepScope& scope, bool for_work) {
  reclaim();
  if (!detained.empty()) release_detained();
  note_peaks();
  const StreamClock::Deferring waits(clock, options.waits_without_lock);
  host.forget_refusals();
  Residency::Step step;
  if (!host_mappings.full()) {
    step = residency.sleep_more(scope, for_work);
  } else if (!for_work && !clock.passed(clock.newest())) {
    step.is_busy = true;
  } else {
    step.status = residency.sleep_at_rest();
    step.no_host = true;
  }
  // Pages stay if they are still mapped at addresses that work in flight may use.
  static_cast<void>(heap.trim(0));
  return step;
}

Status Engine::tag(DeviceAddress address, std::uint64_t tag) {
  if (!owns(address)) return Status::invalid_value();
  const std::lock_guard lock(mutex_);
  State& state = *state_;
  state.note_cache_changes();
  const Buffer* const buffer = state.heap.find(address);
  if (buffer == nullptr || !state.is_held(*buffer)) return Status::invalid_value();
  if (!buffer->block().is_slab()) state.residency.state_of(buffer->block()).tag = tag;
  return {};
}

Status Engine::sleep(const SleepRequest& request, SleepReport* report) {
  const Undisturbed undisturbed;
  std::unique_lock lock(mutex_);
  State& state = *state_;
  if (!state.options.policy->evicts() || state.residency.has_stopped()) return Status::not_supported();
  const OneAtATime one(&state.sleeps_or_wakes);
  if (!one.may_go_on()) return Status::not_ready();
  // Then everything leaves together.
  if (request.tag != 0 && state.host_mappings.full()) return Status::not_supported();
  const SleepScope scope{request.since != 0 ? request.since : state.operation, request.tag};
  const Bytes before = state.heap.created_bytes() + state.external_bytes;
  const Bytes copied = state.migration.statistics().evicted_bytes;
  Residency::Step step;
  for (int in_vain = 0;;) {
    step = state.sleep_more(scope, request.waits);
    if (!step.status.ok() || is_stopped(request)) break;
    // The driver may wait for the whole device before it frees pinned memory.
    if (state.host.wants_trim() && !state.clock.any_blocked() && in_vain < kMostInVain) {
      lock.unlock();
      in_vain = state.host.make_way() ? 0 : in_vain + 1;
      lock.lock();
    } else if (const auto write = state.migration.take_awaited(); write != nullptr) {
      wait_for_file(lock, write);
    } else if (step.goes_on) {
      if (step.in_flight.has_value() && !wait_for_uses(lock, of(*step.in_flight))) break;
    } else if (!request.waits ||
               !(step.busy != nullptr ? wait_for_uses(lock, uses_of(*step.busy)) : wait_for_pages(lock))) {
      break;
    }
  }
  *report = state.report_of_sleep(scope, step.no_host);
  report->device_bytes_before = before;
  report->copied_bytes = state.migration.statistics().evicted_bytes - copied;
  report->since = scope.since;
  report->is_busy = step.is_busy || (report->other_bytes > 0 && step.status.ok());
  // Because a stream is blocked: the memory that it uses counts as in use.
  return step.status == Status::not_ready() ? Status() : step.status;
}

Status Engine::wake(const SleepRequest& request, SleepReport* report) {
  const Undisturbed undisturbed;
  std::unique_lock lock(mutex_);
  State& state = *state_;
  const OneAtATime one(&state.sleeps_or_wakes);
  if (!one.may_go_on()) return Status::not_ready();
  StreamClock& clock = state.clock;
  const Bytes before = state.heap.created_bytes() + state.external_bytes;
  const Bytes copied = state.migration.statistics().restored_bytes;
  Residency::Step step;
  step.goes_on = true;
  while (step.goes_on && !is_stopped(request)) {
    {
      const StreamClock::Deferring waits(clock, state.options.waits_without_lock);
      step = state.residency.wake_more(request.tag);
      step.goes_on |= step.no_room && state.options.waits_without_lock && clock.has_deferred();
    }
    if (const auto read = state.migration.take_awaited(); read != nullptr) {
      wait_for_file(lock, read);
    } else if (step.no_room && step.goes_on) {
      if (!wait_for_deferred(lock).ok()) break;
    } else if (step.in_flight.has_value()) {
      const Use use = step.goes_on ? *step.in_flight : step.newest.value_or(*step.in_flight);
      if (!wait_for_uses(lock, of(use))) break;
    } else {
      // Other threads may want the lock.
      lock.unlock();
      lock.lock();
    }
  }
  state.note_peaks();
  *report = {.device_bytes_before = before,
             .device_bytes = state.heap.created_bytes() + state.external_bytes,
             .asleep_bytes = state.residency.asleep_bytes_of(request.tag),
             .copied_bytes = state.migration.statistics().restored_bytes - copied};
  return {};
}

}  // namespace thermocline
