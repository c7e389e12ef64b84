// SPDX-License-Identifier: Apache-2.0
// The public interface: takes the lock, and calls Engine::State.
#include "offload/engine/engine.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "driver/check.h"
#include "driver/undisturbed.h"
#include "offload/engine/asking.h"
#include "offload/engine/engine_state.h"
#include "offload/residency/unit_size.h"
#include "offload/sharing/budget_source.h"

namespace thermocline {

// It was not submitted.
void Operation::abandon() {
  const std::lock_guard unlocks(engine_->mutex_, std::adopt_lock);
  engine_->state_->forget_upload_copies();
  if (engine_->state_->stalls) engine_->state_->stalls->not_submitted();
}

bool Operation::is_behind_blocked() const { return engine_->state_->clock.is_behind_blocked(engine_->state_->stream); }

const void* Operation::host_copy() const { return engine_->state_->host_copy(); }

std::span<const UploadCopy> Operation::upload_copies() const { return engine_->state_->upload_copies(); }
void Operation::forget_upload_copies() { engine_->state_->forget_upload_copies(); }

Engine::Engine(int device) : mutex_("engine", lock_level::kEngine + device) {}

Status Engine::create(const Driver& driver, const EngineOptions& options, std::unique_ptr<Engine>* out,
                      std::shared_ptr<SpillFile> spill_file) {
  std::unique_ptr<Engine> engine(new Engine(options.device));
  Status status = State::create(driver, options, std::move(spill_file), &engine->state_);
  if (!status.ok()) return status;
  engine->caches_key_ = engine->state_->caches.key();
  engine->range_begin_ = engine->state_->heap.range_begin().value;
  engine->range_bytes_ = engine->state_->heap.range_bytes();
  engine->audits_ = engine->state_->audit != nullptr;
  *out = std::move(engine);
  return {};
}

Engine::~Engine() = default;

Status Engine::allocate_by_key(Bytes bytes, std::uint64_t stream, DeviceAddress* out) {
  static_assert(kNoStream == ThreadCache::kNoStream);
  ThreadCache* cache = nullptr;
  if (!ThreadCaches::find_by_thread(caches_key_, &cache)) [[unlikely]]
    return allocate_without_entry(bytes, stream, out);
  switch (cache->take_first(bytes, stream, out)) {
    case ThreadCache::Taken::kYes:
      return {};
    case ThreadCache::Taken::kNo:
      return allocate_past_cache(bytes, stream, out, cache);
    case ThreadCache::Taken::kPerhaps:
      break;
  }
  return allocate_from(cache, bytes, stream, out);
}

Status Engine::allocate_without_entry(Bytes bytes, std::uint64_t stream, DeviceAddress* out) {
  return allocate_from(state_->caches.mine_beside_entries(), bytes, stream, out);
}

// Apart from the next one, whose call of take() needs a stack frame.
[[gnu::noinline]] Status Engine::allocate_from(ThreadCache* cache, Bytes bytes, std::uint64_t stream,
                                               DeviceAddress* out) {
  if (cache == nullptr || !cache->may_have(bytes)) return allocate_past_cache(bytes, stream, out, cache);
  return search_cache(*cache, bytes, stream, out);
}

[[gnu::noinline]] Status Engine::search_cache(ThreadCache& cache, Bytes bytes, std::uint64_t stream,
                                              DeviceAddress* out) {
  if (cache.take(bytes, stream, out)) return {};
  return allocate_past_cache(bytes, stream, out, &cache);
}

Status Engine::free_by_key(DeviceAddress address, std::uint64_t stream) {
  ThreadCache* cache = nullptr;
  if (!ThreadCaches::find_by_thread(caches_key_, &cache)) [[unlikely]]
    return free_without_entry(address, stream);
  if (cache->put(address, stream)) return {};
  return free_past_cache(address, stream);
}

Status Engine::free_without_entry(DeviceAddress address, std::uint64_t stream) {
  ThreadCache* const cache = state_->caches.mine_beside_entries();
  if (cache != nullptr && cache->put(address, stream)) return {};
  return free_past_cache(address, stream);
}

Status Engine::allocate_slowly(Bytes bytes, std::optional<StreamHandle> stream, DeviceAddress* out) {
  // Declared before `lock`, so that it ends after the lock has been released.
  const Undisturbed undisturbed;
  std::unique_lock lock(mutex_, std::adopt_lock);
  HostReserve::require();
  return ask_without_waiting(lock, [&] { return state_->allocate(bytes, stream, out); });
}

Status Engine::free_slowly(DeviceAddress address, std::optional<StreamHandle> stream) {
  const Undisturbed undisturbed;
  const std::lock_guard lock(mutex_, std::adopt_lock);
  return state_->free(address, stream);
}

std::optional<BufferFacts> Engine::find(DeviceAddress address) const {
  if (!owns(address)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  state_->note_cache_changes();
  const std::optional<BufferFacts> facts = state_->facts_of(state_->heap.find(address));
  return facts.has_value() && address < facts->address + facts->bytes ? facts : std::nullopt;
}

std::vector<BufferFacts> Engine::meant_by(const MemoryAccess& access) const {
  std::vector<BufferFacts> all;
  const auto add = [&all](const std::optional<BufferFacts>& facts) {
    if (facts.has_value()) all.push_back(*facts);
  };
  if (access.bytes > 0) {
    add(find(access.address));
  } else if (owns(access.address)) {
    const std::lock_guard lock(mutex_);
    state_->note_cache_changes();
    const MeantBuffers meant = state_->heap.meant_by(access.address);
    for (const Buffer* const buffer : {meant.within, meant.behind}) add(state_->facts_of(buffer));
  }
  return all;
}

Status Engine::kernels_may_be_others() {
  const std::lock_guard lock(mutex_);
  state_->looks.kernels_may_be_others();
  return state_->run_nothing_again();
}

Operation Engine::begin_slowly(StreamHandle stream, std::span<const MemoryAccess> accesses, const OperationInfo& info,
                               bool again) {
  std::unique_lock lock(mutex_, std::adopt_lock);
  HostReserve::require();
  if (!again) wait_for_turn(lock);
  const bool is_measured = state_->begin_stall(stream, accesses, info);
  const Status status = ask_without_waiting(lock, [&] {
    const Status resolved = state_->resolve(accesses, info, again, stream);
    again = true;
    return resolved.ok() ? state_->prepare(stream) : resolved;
  });
  if (is_measured) state_->end_stall(stream, status.ok());
  if (status.ok()) state_->learn_operation();
  lock.release();
  return Operation(this, status, false);
}

bool Engine::fits(std::span<const MemoryAccess> accesses) {
  const std::lock_guard lock(mutex_);
  return state_->fits(accesses);
}

Demand Engine::demand_of(std::span<const MemoryAccess> accesses) {
  const std::lock_guard lock(mutex_);
  return state_->demand_of(accesses);
}

Status Engine::fits_beside(std::span<const MemoryAccess> accesses, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  return state_->fits_beside(accesses, bytes);
}

bool Engine::fits_anywhere(std::uint64_t ranges) const noexcept {
  // A block's units are nearly equal, and longer than half of the longest: where a range lies in three, each is shorter
  // than the range.
  return ranges * 3 * kUnitBytes <= state_->room.load(std::memory_order_relaxed);
}

bool Engine::has_room_for(Bytes bytes) const noexcept { return bytes <= state_->room.load(std::memory_order_relaxed); }

Bytes Engine::unit_bytes_from(DeviceAddress at) const {
  if (!owns(at)) return 0;
  const std::lock_guard lock(mutex_);
  return state_->unit_bytes_from(at);
}

Bytes Engine::host_copy_run(AddressRange range) const {
  if (!owns(range.at)) return range.bytes;
  const std::lock_guard lock(mutex_);
  return state_->host_copy_run(range);
}

bool Engine::is_on_host(AddressRange range) const {
  if (!owns(range.at) || range.bytes == 0) return false;
  const std::lock_guard lock(mutex_);
  return state_->is_on_host(range);
}

bool Engine::may_want_upload_copies() const noexcept { return state_->options.upload_copies != UploadCopies::kOff; }

bool Engine::wants_upload_copy(AddressRange range, OperationInfo::Source source) const {
  if (!may_want_upload_copies() || !owns(range.at)) return false;
  const std::lock_guard lock(mutex_);
  return state_->wants_upload_copy(range, source);
}

Operation Engine::begin_unknown(StreamHandle stream) {
  std::unique_lock lock(mutex_);
  HostReserve::require();
  wait_for_turn(lock);
  if (state_->stalls) state_->stalls->pause();
  if (state_->audit != nullptr) state_->audit->unknown();
  const Status status = ask_without_waiting(lock, [&] {
    state_->resolve_all();
    return state_->prepare(stream);
  });
  lock.release();
  return Operation(this, status, false);
}

bool Engine::wants_all_launches() const noexcept { return state_->audit != nullptr || state_->host_mappings.on(); }

bool Engine::wants_relaunches() const noexcept { return state_->tracks.load(std::memory_order_relaxed); }

AuditStatistics Engine::audit() const {
  const std::lock_guard lock(mutex_);
  return state_->audit == nullptr ? AuditStatistics() : state_->audit->statistics();
}

bool Engine::has_references() const noexcept { return state_->has_references.load(std::memory_order_relaxed); }
bool Engine::has_global_references() const noexcept {
  return state_->has_global_references.load(std::memory_order_relaxed);
}

void Engine::hold(std::span<const HeldWord> words) {
  const std::lock_guard lock(mutex_);
  state_->note_cache_changes();
  state_->references.hold(words);
  state_->show_references();
}

void Engine::hold_unknown(AddressRange range) {
  const std::lock_guard lock(mutex_);
  state_->note_cache_changes();
  state_->references.hold_unknown(range);
  state_->show_references();
}

void Engine::overwritten(AddressRange range) {
  const std::lock_guard lock(mutex_);
  state_->references.overwritten(range.at, range.bytes);
  state_->show_references();
}

void Engine::copied(AddressRange to, AddressRange from, bool exact) {
  const std::lock_guard lock(mutex_);
  state_->note_cache_changes();
  state_->references.copied(to, from, exact);
  state_->show_references();
}

void Engine::read_stored(AddressRange range, StreamHandle stream) {
  std::unique_lock lock(mutex_);
  static_cast<void>(ask_without_waiting(lock, [&] { return state_->read_stored(range, stream); }));
}

void Engine::will_be_overwritten(AddressRange range) {
  const std::lock_guard lock(mutex_);
  state_->note_cache_changes();
  state_->references.will_be_overwritten(range);
}

void Engine::told_what_overwrites(AddressRange range) {
  const std::lock_guard lock(mutex_);
  state_->note_cache_changes();
  state_->references.told_what_overwrites(range);
  state_->show_references();
}

void Engine::forget_former(AddressRange range) {
  const std::lock_guard lock(mutex_);
  state_->note_cache_changes();
  state_->references.forget_former(range);
  state_->show_references();
}

void Engine::written_by_kernel(std::span<const MemoryAccess> accesses) {
  const std::lock_guard lock(mutex_);
  state_->note_cache_changes();
  static_cast<void>(state_->references.written_by_kernel(state_->references.given(accesses)));
  state_->show_references();
}

Status Engine::pin(DeviceAddress address, const char* reason) {
  std::unique_lock lock(mutex_);
  return ask_without_waiting(lock, [&] { return state_->pin(address, reason, false); });
}

Status Engine::wait_until_fetched(DeviceAddress address, HostWait wait) {
  std::unique_lock lock(mutex_);
  if (wait == HostWait::kForEvents)
    return ask_without_waiting(lock, [&] { return state_->wait_until_fetched(address); });
  const StreamClock::Deferring waits(state_->clock, true);
  return state_->wait_until_fetched(address);
}

void Engine::keep_pinned(DeviceAddress address, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const Buffer* const buffer = state_->heap.find(address);
  if (buffer != nullptr && buffer->number() == number) state_->keep_pinned(*buffer);
}

void Engine::unpin(DeviceAddress address, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const Buffer* const buffer = state_->heap.find(address);
  if (buffer != nullptr && buffer->number() == number) state_->unpin(*buffer);
}

void Engine::unpin_unseen(DeviceAddress address, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const Buffer* const buffer = state_->heap.find(address);
  if (buffer == nullptr || buffer->number() != number) return;
  state_->residency.written_unseen(state_->residency.state_of(buffer->block()));
  state_->unpin(*buffer);
}

Status Engine::hold_on_device(std::span<const AddressRange> ranges, const char* reason, std::uint64_t* hold) {
  std::unique_lock lock(mutex_);
  return ask_without_waiting(lock, [&] { return state_->hold_on_device(ranges, reason, hold); });
}

void Engine::let_go(std::uint64_t hold) {
  const std::lock_guard lock(mutex_);
  state_->let_go(hold);
}

Status Engine::evict(DeviceAddress address) {
  const std::lock_guard lock(mutex_);
  return state_->evict(address);
}

Status Engine::drop(DeviceAddress address) {
  const std::lock_guard lock(mutex_);
  return state_->drop(address);
}

Status Engine::prefetch(DeviceAddress address) {
  const std::lock_guard lock(mutex_);
  return state_->prefetch(address);
}

void Engine::synchronized(StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  state_->clock.synchronized(state_->clock.index_of(stream));
}

void Engine::synchronized_all() {
  const std::lock_guard lock(mutex_);
  state_->clock.synchronized_all();
}

UseSet Engine::submitted(StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  const StreamIndex index = state_->clock.index_of(stream);
  UseSet uses;
  if (const Ordinal newest = state_->clock.submitted(index); newest > 0) uses.add(Use{index, newest});
  return uses;
}

UseSet Engine::submitted_all() const {
  const std::lock_guard lock(mutex_);
  return state_->clock.newest();
}

void Engine::synchronized(const UseSet& uses) {
  const std::lock_guard lock(mutex_);
  state_->clock.synchronized(uses);
}

void Engine::mapping_waits(WaitingCalls calls) {
  const std::lock_guard lock(mutex_);
  state_->heap.mapping_waits(calls);
  state_->host.mapping_waits(calls);
}

Status Engine::open_to(int device) {
  const std::lock_guard lock(mutex_);
  return state_->heap.open_to(device);
}

void Engine::come_behind(StreamHandle stream, const std::function<bool()>& order) {
  const std::lock_guard lock(mutex_);
  if (order()) state_->clock.comes_behind(state_->clock.index_of(stream));
}

bool Engine::is_behind_blocked(StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  return state_->clock.is_behind_blocked(state_->clock.index_of(stream));
}

bool Engine::any_blocked() {
  const std::lock_guard lock(mutex_);
  return state_->clock.any_blocked();
}

Status Engine::make_all_again() {
  const std::lock_guard lock(mutex_);
  return state_->recompute_all();
}

void Engine::recording(bool any) {
  const std::lock_guard lock(mutex_);
  // Meanwhile nothing can run again, and the recorded work may need any contents. If there is no room for them, calls
  // that need them are refused.
  if (any) static_cast<void>(state_->recompute_all());
  state_->clock.recording(any);
}

void Engine::retire(StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  // The handle may be reused for another stream.
  state_->reclaim(Reclaim::kForget);
  state_->clock.retire(stream);
}

std::vector<StreamHandle> Engine::streams() const {
  const std::lock_guard lock(mutex_);
  return state_->clock.handles();
}

Status Engine::State::add_external(Bytes bytes) {
  reclaim();
  // Later there may be no room to run again what has to run.
  if (Status status = recompute_all(); !status.ok()) return status;
  const Bytes external = external_bytes + bytes;
  if (options.budget_source != nullptr) raise_budget(std::min(held_block_bytes, budget_bytes) + external);
  if (external > budget_bytes) {
    return may_fit_later(external) ? Status::not_ready() : refuse("memory that the program maps itself", bytes);
  }
  Bytes limit = budget_bytes - external_bytes - bytes;
  // Memory that is left free for the driver stays free.
  if (leaving_free != 0) limit = std::min(limit, heap.limit());
  if (Status status = residency.make_room_for_limit(limit); !status.ok()) {
    return status.is_out_of_memory() ? refuse("memory that the program maps itself", bytes) : status;
  }
  external_bytes += bytes;
  show_room();
  counters.allocated_bytes += bytes;
  note_peaks();
  return {};
}

Status Engine::State::leave_free(Bytes bytes) {
  reclaim();
  if (Status status = recompute_all(); !status.ok()) return status;
  const Bytes held = heap.created_bytes();
  ++leaving_free;
  const Status status = residency.make_room_for_limit(held > bytes ? held - bytes : 0);
  if (!status.ok() && --leaving_free == 0) limit_pages();
  return status;
}

Status Engine::add_external(Bytes bytes) {
  std::unique_lock lock(mutex_);
  return ask_without_waiting(lock, [&] { return state_->add_external(bytes); });
}

void Engine::remove_external(Bytes bytes) {
  const std::lock_guard lock(mutex_);
  THERMOCLINE_CHECK(bytes <= state_->external_bytes, "only memory that was counted is given back");
  state_->note_peaks();
  state_->external_bytes -= bytes;
  state_->show_room();
  if (state_->leaving_free == 0) state_->limit_pages();
}

Status Engine::leave_free(Bytes bytes) {
  std::unique_lock lock(mutex_);
  return ask_without_waiting(lock, [&] { return state_->leave_free(bytes); });
}

Status Engine::lower_budget(Bytes budget) {
  const Undisturbed undisturbed;
  std::unique_lock lock(mutex_);
  return ask_without_waiting(lock, [&] { return state_->lower_budget(budget); });
}

void Engine::take_again() {
  const std::lock_guard lock(mutex_);
  THERMOCLINE_CHECK(state_->leaving_free > 0, "only what was left free is taken again");
  if (--state_->leaving_free == 0) state_->limit_pages();
}

void Engine::step() {
  const std::lock_guard lock(mutex_);
  state_->policy->step();
}

Status Engine::trim() {
  std::unique_lock lock(mutex_);
  state_->reclaim();
  // Detained buffers whose dependents are gone are released, too.
  if (!state_->detained.empty()) state_->release_detained();
  state_->note_peaks();
  if (state_->host_mappings.on()) {
    if (Status status = state_->heap.sweep(Wait::kNo); !status.ok()) return status;
  }
  trim_host(lock);
  return state_->heap.trim(0);
}

void Engine::memory_info(Bytes* free, Bytes* total) const {
  const std::lock_guard lock(mutex_);
  state_->note_cache_changes();
  const Bytes taken = state_->live_block_bytes() + state_->external_bytes;
  BudgetSource* const source = state_->options.budget_source;
  *total = source == nullptr ? state_->budget_bytes : std::max(state_->budget_bytes, source->share());
  const Bytes left = taken < *total ? *total - taken : 0;
  *free = left - left % state_->heap.page_bytes();
}

Bytes Engine::page_bytes() const noexcept { return state_->heap.page_bytes(); }

EngineStatistics Engine::statistics() const {
  const std::lock_guard lock(mutex_);
  state_->residency.count_outcomes();
  return state_->collect();
}

std::optional<EngineStatistics> Engine::try_statistics() const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return std::nullopt;
  state_->residency.count_outcomes();
  return state_->collect();
}

void Engine::reset_peaks() {
  const std::lock_guard lock(mutex_);
  state_->reset_peaks();
}

void Engine::set_report_handler(ReportHandler handler) {
  const std::lock_guard lock(mutex_);
  state_->report_handler = handler;
}

}  // namespace thermocline
