// SPDX-License-Identifier: Apache-2.0
#include "offload/engine/engine_state.h"

#include <algorithm>
#include <utility>

#include "allocator/host_account.h"
#include "allocator/host_ledger.h"
#include "driver/check.h"
#include "driver/locks.h"
#include "offload/page_bytes.h"
#include "offload/residency/host_grant.h"
#include "offload/sharing/budget_source.h"

namespace thermocline {
namespace {

// The options that are in effect on this device.
EngineOptions effective(EngineOptions options, const DeviceFacts& facts, bool spills) {
  const bool can = facts.can_map_host && options.policy->evicts() && options.safety == Safety::kStrict;
  if (!options.may_alias) {
    options.safety = Safety::kStrict;
    options.recompute = Recompute::kOff;
  }
  if (!can || !options.may_alias) options.host_fallback = HostFallback::kOff;
  // An address cannot be mapped to a file.
  if (spills && options.host_fallback == HostFallback::kAuto) options.host_fallback = HostFallback::kOff;
  if (spills && options.host_account != nullptr)
    options.host_limit_bytes = limit_beside_other_files(options.host_limit_bytes, options.host_account->devices());
  if (options.host_fallback == HostFallback::kFull) {
    options.policy = kLruPolicy;
  }
  // The next access may write, and nothing would show later that it has not. Replays know directions.
  if (options.host_is_readable && options.digests == DigestUse::kOff) options.upload_copies = UploadCopies::kOff;
  return options;
}

// Digests compare host copies, or recomputed contents.
bool wants_digests(const EngineOptions& options) {
  const bool reruns = options.recompute == Recompute::kAuto && options.relauncher != nullptr;
  const bool verifies = reruns && !options.drops_by_proof && options.host_is_readable;
  return options.digests == DigestUse::kAuto || verifies;
}

std::unique_ptr<MappableHost> mappable_host(const Driver& driver, const EngineOptions& options,
                                            const DeviceFacts& facts) {
  if (options.host_fallback == HostFallback::kOff) return nullptr;
  return std::make_unique<MappableHost>(driver, options.device, facts.host_map_node, facts.page_bytes,
                                        options.host_is_readable);
}

std::unique_ptr<EvictionPolicy> make_policy(const PolicyParts& parts) {
  const PolicyEntry& entry = *parts.options.policy;
  return entry.evicts() ? entry.make(parts) : std::make_unique<EvictionPolicy>();
}

constexpr Bytes kSlabsInBudget = 256;
// Buffers below one part in this many of a page share pages, so that none takes more than twice its size.
constexpr Bytes kSharedBelow = 2;

// Asking for a stream's progress takes one or two driver calls.
constexpr std::uint64_t kOperationsPerVerdict = 16;

}  // namespace

Engine::State::State(std::unique_ptr<Foundation> foundation_in, const EngineOptions& options_in, Bytes budget_bytes_in,
                     Bytes device_total_in)
    : options(options_in),
      looks_at_tables((options.policy->evicts() || options.audit) && options.host_is_readable),
      budget_bytes(budget_bytes_in),
      device_total(device_total_in),
      foundation(std::move(foundation_in)),
      clock(foundation->clock),
      host(*foundation->host),
      heap(*foundation->heap),
      host_mappings(heap, clock, host, options.host_fallback, options.host_is_readable),
      digests(foundation->driver, clock,
              {.wanted = wants_digests(options), .tested = options.host_is_readable, .annotate = options.annotate},
              options.recompute == Recompute::kAuto ? Digests::kMany : Digests::kFew),
      migration(foundation->driver, clock, host, host_mappings),
      residency(heap, clock, digests, migration, host_mappings,
                ResidencyOptions{.may_evict = options.policy->evicts(),
                                 .evict_no_more = options.evict_no_more,
                                 .trusting = options.safety == Safety::kTrusting,
                                 .min_offload_bytes = options.min_offload_bytes,
                                 .compares_copies = options.digests == DigestUse::kAuto,
                                 .observer = options.movements}),
      policy(make_policy({foundation->driver, heap, clock, migration, residency, allocations, options})),
      references(heap),
      looks(foundation->driver, clock, heap, references, options.annotate),
      idle(options.idle_after_ns) {
  residency.evict_in(policy->victim_order(), policy->spill_order());
  host_mappings.set_hurried([this] { return policy->is_hurried(); });
}

Status Engine::State::create(const Driver& driver, const EngineOptions& wanted, std::shared_ptr<SpillFile> spill_file,
                             std::unique_ptr<State>* out) {
  DeviceFacts facts;
  if (Status status = driver.facts(&facts); !status.ok()) return status;
  if (!facts.has_virtual_memory) return Status::not_supported();
  const EngineOptions options = effective(wanted, facts, spill_file != nullptr);
  const Bytes budget =
      options.budget_bytes == 0 ? facts.total_memory : std::min(options.budget_bytes, facts.total_memory);
  // Buffers that share pages are evicted together. An audit's result has to hold for every later budget.
  const Bytes laid_out_for = options.audit ? 0 : budget;
  facts.page_bytes = page_bytes_for(laid_out_for, options.page_bytes, facts.page_bytes);
  auto foundation = std::make_unique<Foundation>(driver.with_pages_of(facts.page_bytes));
  if (Status status = HostPool::create(foundation->driver, options.host_limit_bytes, kHostStepBytes, &foundation->host,
                                       facts.host_node, {options.host_account, options.host_ledger},
                                       mappable_host(foundation->driver, options, facts));
      !status.ok()) {
    return status;
  }
  HeapOptions heap_options;
  heap_options.device = options.device;
  heap_options.page_bytes = facts.page_bytes;
  heap_options.limit = budget;
  heap_options.whole_pages_from = std::max(heap_options.whole_pages_from, facts.page_bytes / kSharedBelow);
  heap_options.may_alias = options.may_alias;
  heap_options.apart = options.buffers_apart;
  // If one operation needs many slabs, they have to fit into a small budget, too.
  heap_options.slab_bytes =
      std::max(facts.page_bytes, std::min(laid_out_for / kSlabsInBudget, heap_options.slab_bytes));
  if (Status status = Heap::create(foundation->driver, foundation->clock, heap_options, &foundation->heap);
      !status.ok()) {
    return status;
  }
  std::unique_ptr<State> state(new State(std::move(foundation), options, budget, facts.total_memory));
  // A full host fallback loses no access: a file cannot guarantee that.
  if (spill_file != nullptr && options.policy->evicts() && !state->host_mappings.full()) {
    const bool in_place = options.spills_in_place || !options.waits_without_lock;
    state->migration.spill_to(std::make_unique<FileCopies>(std::move(spill_file), options.spill_limit_bytes, in_place,
                                                           state->host, options.spill_problem));
  }
  if (options.may_use_pageable) state->migration.may_use_pageable(options.pinning_refused);
  state->may_recompute();
  if (options.audit) state->audit = std::make_unique<Audit>(state->foundation->driver, options.device);
  if (options.annotate) {
    const Heap& heap = state->heap;
    state->annotations = std::make_unique<NvtxMemory>("thermocline", heap.range_begin(), heap.range_bytes());
  }
  if (options.policy->evicts()) {
    if (Status status = state->migration.open(options.without_host_memory); !status.ok()) return status;
  }
  state->is_plain = state->options.redzone_bytes == 0 && state->annotations == nullptr && state->audit == nullptr &&
                    state->versions == nullptr && !state->host_mappings.full();
  if (options.budget_source != nullptr && options.budget_source->needs_times())
    state->stalls.emplace(state->foundation->driver);
  state->repeats = options.budget_source == nullptr && state->audit == nullptr && !state->host_mappings.full();
  state->note_what_is_slow();
  state->show_room();
  // Under a full host fallback, work that was begun is finished in place (residency.cc).
  state->host.trim_later(options.waits_without_lock && !state->host_mappings.full());
  *out = std::move(state);
  return {};
}

Engine::State::~State() { residency.release_host_copies(); }

bool Engine::State::tracks_contents() {
  if (tracks.load(std::memory_order_relaxed)) return true;
  // The first operation that is noted has not been prepared before.
  if (versions == nullptr || info.again || (!options.drops_all && !expects_shortage())) return false;
  if (options.safety != Safety::kTrusting) not_vouched_for.join(clock.newest());
  tracks.store(true, std::memory_order_relaxed);
  return true;
}

Status Engine::State::prepare(StreamHandle handle) {
  ++operation;
  const bool tracked = tracks_contents();
  if (tracked) info.again ? note_return() : note_arrival();
  if (policy->wants().arrivals && !info.again && expects_shortage()) {
    const InPlace as_planned(clock, options.waits_without_lock);
    policy->arriving({info, accesses, operands, live_bytes(), live_block_bytes()});
  }
  if (options.drops_all && tracked && !info.again) [[unlikely]]
    drop_all();
  if (tracked) {
    if (Status status = recompute_before(handle); !status.ok()) return status;
  }
  const bool only_reads_host_copy = host_read != nullptr && accesses == 1;
  if (Status status = only_reads_host_copy ? Status() : admit(handle); !status.ok()) return status;
  if (host_read != nullptr) {
    if (Status status = read_host_copy(handle); !status.ok()) return status;
  }
  if (info.may_block) clock.about_to_block();
  if (audit != nullptr) {
    if (Status status = audit->begin(operands); !status.ok()) return status;
  }
  if (policy->wants().submitting) {
    const InPlace as_planned(clock, options.waits_without_lock);
    policy->submitting(handle);
  }
  if (info.source != OperationInfo::Source::kElsewhere) begin_upload_copies();
  return {};
}

// Makes the operands resident, and makes the stream wait for everything that they need.
Status Engine::State::admit(StreamHandle handle) {
  if (operands.empty()) {
    stream = clock.index_of(handle);
    return {};
  }
  Status status;
  if (!has_budget_of_its_own() || !residency.hold(operands)) {
    if (status = fetch_operands(); !status.ok()) return status;
  }
  stream = clock.index_of(handle);
  for (const BlockState* state : operands) {
    if (status = clock.wait_all(stream, state->wait_for); !status.ok()) return status;
    if (status = clock.wait_all(stream, state->former); !status.ok()) return status;
  }
  return {};
}

Status Engine::State::fetch_operands() {
  const bool any_nonresident =
      std::ranges::any_of(operands, [](const BlockState* state) { return !state->has_wanted() && state->defined(); });
  const Status status = make_operands_resident();
  if (status.is_out_of_memory()) return refuse_operation();
  if (status.ok() && any_nonresident) policy->missed();
  return status;
}

// Called after each operation.
void Engine::State::note_submitted() {
  if (looks.any_under_way()) {
    if (audit != nullptr) collect_probes(Wait::kYes);
    if (counters.operations % kOperationsPerVerdict == 0) collect_probes(Wait::kNo);
  }
  if (host_mappings.has_unseen()) keep_unseen();
  if (host_mappings.has_late()) host_mappings.catch_up();
  if (policy->wants().submitted) policy->submitted(stream);
  if (migration.files() != nullptr) residency.spill_behind();
}

void Engine::State::commit(bool completed) {
  const InPlace as_planned(clock, false);
  ++counters.operations;
  if (looks.has_arrived()) {
    looks.submitted(stream);
    show_references();
  }
  const Use use{stream, clock.advance(stream)};
  if (info.may_block) clock.may_block(stream);
  if (host_read != nullptr) {
    host_read->host_reads.add(use);
    ++counters.host_reads;
    if (accesses == 1) operands.clear();
  }
  for (BlockState* const state : left_out) {
    for (EvictionUnit& unit : state->units()) host_mappings.used_where_it_is(unit);
  }
  for (BlockState* state : operands) {
    residency.accessed(*state, operation);
    state->block->uses.add(use);
  }
  if (!uploads.empty()) keep_upload_copies(use);
  if (tracks.load(std::memory_order_relaxed)) note_submission(use);
  if (audit != nullptr) audit->end(clock.handle_of(stream), operands, info);
  if (stalls) stalls->submitted(clock.handle_of(stream));
  if (completed) clock.synchronized(stream);
  note_submitted();
}

// Probes buffers of up to half of the budget in total: the rest needs room, too.
void Engine::State::keep_unseen() {
  for (const DeviceAddress address : host_mappings.take_unseen()) {
    const Block* const block = heap.block_at(address);
    if (block == nullptr || (pinned_block_bytes + block->bytes()) * 2 > budget_bytes - external_bytes) continue;
    std::vector<DeviceAddress> buffers;
    heap.for_each_buffer(*block, [&](const Buffer& buffer) { buffers.push_back(buffer.address()); });
    for (const DeviceAddress buffer : buffers) static_cast<void>(pin(buffer, "accessed without being seen", true));
  }
}

void Engine::State::note_cache_changes() {
  caches.note_changes([this](Buffer& buffer, bool names_stream) {
    // Cached buffers were freed on the stream that they were allocated on, which may have progressed since.
    if (names_stream) freed_on(buffer, buffer.hint());
    if (!buffer.block().is_slab()) policy->freed(buffer.block());
    references.forget(buffer);
    heap.renew(buffer);
    note_placement();
    residency.succeed(buffer);
    if (!buffer.block().is_slab() && is_held(buffer)) tell_of_allocation(buffer.block());
    allocations.add(buffer.block().bytes());
  });
}

bool Engine::State::reclaim(Reclaim what) {
  note_cache_changes();
  return caches.reclaim(what, [this](Buffer& buffer, bool names_stream) {
    if (names_stream) freed_on(buffer, buffer.hint());
    release(buffer);
  });
}

// Reserved addresses, and addresses still mapped to other blocks' pages, are given up before a request is refused.
Status Engine::State::find_addresses(Bytes bytes, StreamIndex hint, Buffer** out) {
  Block* const reserved = policy->wants().addresses ? policy->reserved_block(bytes) : nullptr;
  if (reserved != nullptr) reclaim();
  const Status status = heap.allocate(bytes, hint, out, reserved);
  if (!status.is_out_of_memory()) return status;
  reclaim();
  policy->release_addresses();
  if (Status swept = heap.sweep(Wait::kYes); !swept.ok()) return swept;
  return heap.allocate(bytes, hint, out);
}

// Finds addresses, and a block that has pages or may get them at its first access. Cached buffers are freed before more
// pages are taken, and before anything is refused.
Status Engine::State::place(Bytes bytes, StreamIndex hint, Buffer** out) {
  note_cache_changes();
  note_placement();
  if (!detained.empty()) release_detained();
  // Scratch takes any free memory: the plan of the program's own allocations does not include it.
  if (policy->wants().allocating && !recomputing) {
    const InPlace as_planned(clock, options.waits_without_lock);
    policy->allocating();
  }
  if (caches.has_large()) reclaim(Reclaim::kLarge);
  const bool evicts = options.policy->evicts();
  const Bytes limit = budget_bytes - external_bytes;
  // Once more is live than the device holds, the host must be able to hold all of it: evicted and fetched memory are
  // both there while they change places. Pages that happen to be free, because others are evicted, do not change that.
  const auto can_be_held = [&](const Block& found) {
    return found.live_buffers() != 1 || !evicts || host_holds(held_block_bytes + found.bytes(), limit, found);
  };
  Status status = find_addresses(bytes, hint, out);
  bool is_held = status.ok() && can_be_held((*out)->block());
  if ((!is_held || !(*out)->block().mapped()) && caches.cached_bytes() > 0) {
    // First frees the found place: freeing cached buffers may free the rest of its block, without it.
    if (status.ok()) heap.free(*out);
    reclaim();
    status = heap.allocate(bytes, hint, out);
    is_held = status.ok() && can_be_held((*out)->block());
  }
  if (!status.ok()) return status;
  Block& block = (*out)->block();
  const bool new_block = block.live_buffers() == 1;
  if (new_block && policy->wants().addresses) policy->placed(bytes, block);
  // Scratch may take pages even so, free ones or those of others: it is freed before anything else is fetched.
  if (!is_held && !recomputing) {
    give_back(*out);
    return Status::out_of_memory();
  }
  // An evicted slab has contents: its first access fetches them.
  if (new_block && !block.mapped()) {
    StreamIndex legacy;
    const bool on_legacy = clock.find(StreamHandle{}, &legacy) && hint == legacy;
    heap.expect_user(on_legacy ? stream : hint);
    status = heap.homes_at_hand(block, {0, block.pages()}, false) ? heap.map(block, Wait::kBehindNewest)
                                                                  : Status::out_of_memory();
  }
  if (status.is_out_of_memory() && !evicts) status = heap.map(block, Wait::kYes);
  // The block gets pages at its first access. Not ready: nothing can be mapped while a stream is blocked.
  const bool may_wait = evicts && (is_held || recomputing) && pinned_block_bytes + block.bytes() <= limit;
  if ((status.is_out_of_memory() || status == Status::not_ready()) && may_wait) status = Status();
  if (!status.ok()) give_back(*out);
  return status;
}

Status Engine::State::allocate(Bytes asked, std::optional<StreamHandle> handle, DeviceAddress* address) {
  if (asked == 0 || asked > ~Bytes{0} - options.redzone_bytes) return Status::invalid_value();
  const Bytes bytes = asked + options.redzone_bytes;
  if (options.budget_source != nullptr) raise_budget(held_block_bytes + external_bytes + bytes);
  if (bytes > budget_bytes - external_bytes) {
    return may_fit_later(bytes + external_bytes) ? Status::not_ready() : refuse("an allocation", bytes);
  }
  if (caches.may_join()) reclaim();
  Buffer* buffer = nullptr;
  if (Status status = place(bytes, clock.index_of(handle.value_or(StreamHandle{})), &buffer); !status.ok()) {
    // Copies small inputs of dropped contents before they are overwritten. Dependents of others are recomputed.
    const auto blocked = [this](const Buffer* one) { return clock.is_blocked(one->block().uses); };
    if (status.is_out_of_memory() && std::ranges::any_of(detained, blocked)) return Status::not_ready();
    return status.is_out_of_memory() ? refuse("an allocation", bytes) : status;
  }
  Block& block = buffer->block();
  // An unseen user cannot be made to wait for earlier users of the memory.
  if (host_mappings.full()) {
    const WaitsInPlace others_submit;
    const StreamClock::Deferring none(clock, false);
    if (Status waited = clock.synchronize(buffer->block().uses); !waited.ok()) {
      heap.free(buffer);
      return waited;
    }
  }
  residency.adopt(*buffer);
  if (block.live_buffers() == 1) {
    held_block_bytes += block.bytes();
    tell_of_allocation(block);
    if (audit != nullptr) audit->allocated(block);
  }
  allocations.add(block.bytes());
  ++counters.allocations;
  counters.allocated_bytes += bytes;
  counters.largest_allocation_bytes = std::max(counters.largest_allocation_bytes, bytes);
  note_peaks();
  *address = buffer->address();
  if (annotations != nullptr) {
    // Tools that inspect the pool have to be told of every buffer, so none is cached.
    annotations->add(buffer->address(), asked);
  } else if (!pressed && options.redzone_bytes == 0 && !host_mappings.full() && versions == nullptr &&
             caches.has_asked_for(bytes)) {
    if (Buffer* displaced = caches.remember(*buffer, handle); displaced != nullptr) release(*displaced);
  }
  return {};
}

Status Engine::State::free(DeviceAddress address, std::optional<StreamHandle> handle) {
  Buffer* buffer = heap.find(address);
  if (buffer == nullptr || buffer->address() != address || detained.contains(buffer) || !caches.withdraw(*buffer)) {
    return Status::invalid_value();
  }
  if (annotations != nullptr) annotations->remove(address);
  if (handle.has_value()) freed_on(*buffer, clock.index_of(*handle));
  // Unseen users of the buffer may have been any work.
  if (host_mappings.full()) buffer->block().uses.join(clock.newest());
  release(*buffer);
  ++counters.frees;
  return {};
}

void Engine::State::detain(const Buffer& buffer) {
  detained.insert(&buffer);
  note_placement();
  detained_bytes += buffer.requested();
  if (!buffer.block().is_slab()) detained_block_bytes += buffer.block().bytes();
  note_what_is_slow();
}

void Engine::State::release_detained() {
  std::vector<Buffer*> passed;
  for (const Buffer* one : detained) {
    if (!clock.is_blocked(one->block().uses)) passed.push_back(heap.find(one->address()));
  }
  // Sorted, so that the order does not depend on their locations in memory.
  std::sort(passed.begin(), passed.end(), [](const Buffer* a, const Buffer* b) { return a->number() < b->number(); });
  for (Buffer* one : passed) {
    detained.erase(one);
    detained_bytes -= one->requested();
    if (!one->block().is_slab()) detained_block_bytes -= one->block().bytes();
    release(*one);
  }
  note_what_is_slow();
}

void Engine::State::release(Buffer& buffer) {
  Block& block = buffer.block();
  if (clock.is_blocked(block.uses) || (versions != nullptr && !lets_go(buffer))) return detain(buffer);
  if (!told_scratch.empty() && told_scratch.erase(&buffer) != 0) annotations->remove(buffer.address());
  if (!pinned.empty()) let_go_pin(buffer);
  if (block.live_buffers() == 1) {
    held_block_bytes -= block.bytes();
    policy->freed(block);
    forget_held(block);
    residency.forget(block);
  }
  references.forget(buffer);
  show_references();
  give_back(&buffer);
}

void Engine::State::give_back(Buffer* buffer) {
  note_placement();
  const Block& block = buffer->block();
  if (policy->wants().addresses && options.may_alias && block.live_buffers() == 1 && policy->keeps_addresses(block)) {
    heap.vacate(buffer);
  } else {
    heap.free(buffer);
  }
}

void Engine::State::show_references() {
  has_references.store(!references.empty(), std::memory_order_relaxed);
  has_global_references.store(references.any_outside(), std::memory_order_relaxed);
  note_what_is_slow();
}

// Seen users wait for the same on their streams; in a slab also for uses of the neighbors.
Status Engine::State::wait_until_fetched(DeviceAddress address) {
  const Buffer* const buffer = heap.find(address);
  if (buffer == nullptr) return Status::invalid_value();
  if (Status status = clock.synchronize(residency.state_of(buffer->block()).wait_for); !status.ok()) return status;
  return clock.synchronize(buffer->former);
}

Status Engine::State::own_block_at(DeviceAddress address, BlockState** out) {
  if (!options.policy->evicts()) return Status::not_supported();
  note_cache_changes();
  const Buffer* buffer = heap.find(address);
  if (buffer == nullptr || !is_held(*buffer)) return Status::invalid_value();
  Block& block = buffer->block();
  // Under a full host fallback nothing is moved except on demand.
  *out = block.is_slab() || host_mappings.full() ? nullptr : &residency.state_of(block);
  return {};
}

std::optional<BufferFacts> Engine::State::facts_of(const Buffer* buffer) const {
  if (buffer == nullptr || !is_held(*buffer)) return std::nullopt;
  const Bytes bytes = buffer->requested() - options.redzone_bytes;
  return BufferFacts{buffer->address(), bytes, buffer->number(), buffer->block().mapped()};
}

// Small buffers are not evicted: other buffers in their slab may be in use.
Status Engine::State::evict(DeviceAddress address) {
  if (residency.has_stopped()) return Status::not_supported();
  BlockState* state = nullptr;
  if (Status status = own_block_at(address, &state); !status.ok() || state == nullptr) return status;
  if (state->block->bytes() >= options.min_offload_bytes)
    residency.begin_evictions(*state, state->units().size(), EvictReason::kRequested);
  return {};
}

Status Engine::State::prefetch(DeviceAddress address) {
  BlockState* state = nullptr;
  if (Status status = own_block_at(address, &state); !status.ok() || state == nullptr) return status;
  return residency.prefetch(*state, false, FetchReason::kRequested) ? Status() : Status::not_ready();
}

void Engine::State::note_peaks() {
  // With this, live and cached bytes together never exceed the peak, so no thread can set a new peak without the
  // lock.
  if (heap.live_bytes() - detained_bytes + external_bytes > counters.peak_live_bytes) reclaim();
  // The number of buffers is not worth a reclaim.
  counters.peak_live_buffers = std::max(counters.peak_live_buffers, heap.buffers() - detained.size());
  counters.peak_live_bytes = std::max(counters.peak_live_bytes, heap.live_bytes() - detained_bytes + external_bytes);
  note_device_peak();
}

void Engine::State::reset_peaks() {
  reclaim();
  heap.reset_peaks();
  host.reset_peaks();
  counters.peak_live_bytes = heap.live_bytes() - detained_bytes + external_bytes;
  counters.peak_live_buffers = heap.buffers() - detained.size();
  counters.largest_allocation_bytes = 0;
  counters.peak_device_bytes = 0;
  note_device_peak();
}

void Engine::State::validate() const {
  heap.validate();
  residency.validate();
  caches.validate();
  references.validate();
  known_operations.validate(heap, placement.load(std::memory_order_relaxed));
  if (versions != nullptr) {
    versions->validate();
    if (verification != nullptr) verification->validate();
    THERMOCLINE_CHECK(!versions->any_dropped() || residency.is_trusting(), "what is dropped may be missed by nobody");
  }
  Bytes live = 0;
  heap.for_each_block([&live](const Block& block) { live += block.bytes(); });
  THERMOCLINE_CHECK(live == held_block_bytes, "held block bytes are the sum of the blocks with buffers");
  THERMOCLINE_CHECK(slow_to_allocate == (!is_plain || !detained.empty()) &&
                        (slow_to_free || (!slow_to_allocate && pinned.empty() && references.empty())),
                    "small buffers come and go in the common way only where nothing else has to be done");
  Bytes kept_aside = 0, blocks_kept_aside = 0;
  for (const Buffer* one : detained) {
    THERMOCLINE_CHECK(heap.find(one->address()) == one && !ThreadCache::is_cached(*one),
                      "what is detained is a buffer of the heap, and no thread's");
    kept_aside += one->requested();
    blocks_kept_aside += one->block().is_slab() ? 0 : one->block().bytes();
  }
  THERMOCLINE_CHECK(kept_aside == detained_bytes && blocks_kept_aside == detained_block_bytes,
                    "what is detained is counted");
}

}  // namespace thermocline
