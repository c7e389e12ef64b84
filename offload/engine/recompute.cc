// SPDX-License-Identifier: Apache-2.0
// The engine's side of recomputing: contents are dropped as the plan says. They are recomputed before an operation
// that reads them, and before their inputs are overwritten or freed, unless these are small and are copied aside, or
// kept. This does not depend on the plan being followed: a program that departs from it loses time, and gets the same
// bits.
#include <algorithm>
#include <atomic>
#include <utility>

#include "driver/check.h"
#include "offload/engine/engine_state.h"
#include "offload/recompute/obstacles.h"

namespace thermocline {
namespace {

// The movement of a whole buffer with a block of its own.
MovedUnit whole_unit_of(const Buffer& buffer) {
  const Block& block = buffer.block();
  return {.address = buffer.address(),
          .bytes = block.bytes(),
          .block = block.begin(),
          .block_bytes = block.bytes(),
          .is_slab = false};
}

}  // namespace

void Residency::drop_contents(BlockState& state) {
  THERMOCLINE_CHECK(trusting_, "pages change hands at once only while all accesses are known");
  state.dropped = true;
  for (EvictionUnit& unit : state.units()) {
    set_prefetched(unit, false);
    set_asleep(unit, false);
    set_hollow(unit, false);
    drop_host_copy(unit);
    unit.defined = false;
    unit.evict_reason.reset();
    if (!unit.mapped()) continue;
    UseSet pending = state.block->uses;
    pending.join(unit.uses);
    heap_.give_up(*state.block, unit.range, pending);
    resident_bytes_ -= unit.bytes();
    set_state(unit, ResidencyState::kEvicted);
  }
}

Status Residency::distrust() {
  if (options_.trusting || !trusting_) return {};
  for (EvictionUnit& unit : evicted_) {
    if (Status status = migration_.finish(unit); !status.ok()) return status;
  }
  if (Status status = heap_.sweep(Wait::kYes); !status.ok()) return status;
  gives_up_at_once_ = false;
  trusting_ = false;
  for (EvictionUnit& unit : evicted_) {
    const auto pages = unit.whole->block->page_handles().subspan(unit.range.first, unit.range.count);
    const bool has_no_pages = std::ranges::all_of(pages, [](PageHandle page) { return page == PageHandle{}; });
    if (unit.host != nullptr && has_no_pages && !host_mappings_.is_mapped_to_host(unit))
      host_mappings_.map_to_host(unit);
  }
  return {};
}

void Engine::State::may_recompute() {
  const bool may = options.recompute == Recompute::kAuto && options.relauncher != nullptr &&
                   policy->recompute() != nullptr && !options.audit && !host_mappings.full() &&
                   // Reruns do not write redzones, which would be taken for overruns.
                   options.redzone_bytes == 0 &&
                   // Contents recomputed while the lock is free would count for another thread's operation.
                   !options.waits_without_lock;
  if (!may) return;
  versions = std::make_unique<Versions>(Relauncher::kRemembered, options.drops_by_proof);
  note_placement();
  may_verify();
  recompute_policy = policy->recompute();
  recompute_policy->recompute_with(*versions, options.recompute_plans, options.schedules,
                                   [this](BlockState& state) { drop_block(state); });
}

// Lists the operands as the caller of begin() described them; false: some are not described well enough.
bool Engine::State::list_known_operands(std::vector<Versions::Operand>* list) {
  if (info.relaunch == nullptr || given_everything || info.relaunch->uses.size() != given.size()) return false;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const MemoryAccess& access = given[i];
    const Buffer* const buffer = heap.find(access.address);
    if (buffer == nullptr || buffer->address() != access.address ||
        buffer->requested() - options.redzone_bytes != access.bytes) {
      return false;
    }
    OperandUse use = info.relaunch->uses[i];
    use.reads |= !use.writes;
    list->push_back({.buffer = buffer->number(),
                     .address = access.address,
                     .bytes = access.bytes,
                     .owns_pages = !buffer->block().is_slab(),
                     .use = use});
    const auto same = [&](const Versions::Operand& other) { return other.buffer == buffer->number(); };
    if (std::count_if(list->begin(), list->end(), same) > 1) return false;
  }
  return named_operands == operands.size();
}

bool Engine::State::may_trust() const {
  return options.safety == Safety::kTrusting || options.drops_by_proof || versions->any_dropped() ||
         recompute_policy->gains_by_trust();
}

void Engine::State::note_placement() {
  static std::atomic<std::uint64_t> newest{0};
  if (versions != nullptr)
    placement.store(newest.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_release);
}

std::uint64_t Engine::placement() const noexcept { return state_->placement.load(std::memory_order_acquire); }

void Engine::State::note_arrival() {
  arrived_in = std::this_thread::get_id();
  noted = nullptr;
  put_back_overwriting();
  if (verification != nullptr) {
    verification->not_rehearsed();
    verification->poll();
  }
  // Trusting: the program itself vouches for all operations. An operation that may wait for the host lets later ones
  // pass it: nothing that these depend on may have to be recomputed behind it.
  is_vouched_for =
      !info.may_block && (options.safety == Safety::kTrusting || (info.relaunch != nullptr && !given_everything));
  if (!is_vouched_for) recompute_obstacles().latest_may_wait.store(info.may_block, std::memory_order_relaxed);
  if (is_vouched_for && clock.passed(not_vouched_for)) {
    not_vouched_for.clear();
    if (may_trust()) residency.trust();
  }
  // While an operation waits, or may wait, operations do not run in the order in which they arrive, so it is not known
  // what each of them has read.
  const bool is_in_order = is_vouched_for && not_vouched_for.empty() && !clock.any_blocked();
  if (!is_in_order && info.relaunch != nullptr && info.relaunch->may_run_again) {
    RecomputeObstacles& all = recompute_obstacles();
    (info.may_block || clock.any_blocked() ? all.behind_host : all.behind_unknown)
        .fetch_add(1, std::memory_order_relaxed);
  }
  std::vector<Versions::Operand> list;
  if (list_known_operands(&list)) {
    // A pinned buffer may be written by unseen work at any time.
    const auto is_pinned = [](const BlockState* state) {
      return state->pins > 0 ||
             std::ranges::any_of(state->parts(), [](const EvictionUnit& unit) { return unit.pins > 0; });
    };
    const bool may_run_again = is_in_order && info.relaunch->may_run_again && std::ranges::none_of(operands, is_pinned);
    const auto form = std::make_shared<const Versions::Form>(list, may_run_again, true, info.relaunch->trial);
    if (may_run_again == info.relaunch->may_run_again) noted = form;
    versions->arrives(form, info.relaunch->id, info.nanoseconds);
    return;
  }
  list.clear();
  for (const BlockState* const state : operands) {
    const auto is_written = [state](const EvictionUnit& unit) { return state->wants(unit) && state->writes(unit); };
    const bool writes = std::ranges::any_of(state->parts(), is_written);
    heap.for_each_buffer(*state->block, [&](const Buffer& buffer) {
      list.push_back({.buffer = buffer.number(),
                      .address = buffer.address(),
                      .bytes = buffer.requested(),
                      .owns_pages = !state->block->is_slab(),
                      .use = {.reads = true, .writes = writes}});
    });
  }
  versions->arrives(0, false, info.nanoseconds, list, is_vouched_for);
}

// An operation comes again after not_ready, or its next part comes. If other operations have arrived while the lock was
// free, what was noted of it is lost, and it counts as one that may access anything.
void Engine::State::note_return() {
  if (arrived_in == std::this_thread::get_id() && (is_part || versions->is_arriving())) return;
  // Nor is anything known of operations that arrived meanwhile and have not been submitted.
  arrived_in = {};
  if (verification != nullptr) verification->not_rehearsed();
  put_back_overwriting();
  versions->never_submitted();
  is_vouched_for = false;
}

// The operation that arrives may access anything. So nothing that it could reach may be dropped, and no address may be
// mapped to another block's pages; and from then on it is not known what contents have been made of.
Status Engine::State::expect_anything(StreamHandle handle) {
  if (Status status = recompute_one_by_one(versions->dropped(), handle, RecomputeReason::kUnknownAccess); !status.ok())
    return status;
  recompute_policy->distrusts();
  if (Status status = residency.distrust(); !status.ok()) return status;
  versions->forget_contents();
  return {};
}

Status Engine::State::recompute_before(StreamHandle handle) {
  const OperationInfo arrived = info;
  const bool any = versions->any_dropped() || recompute_policy->planned_runs() > 0;
  if (!any && !is_vouched_for) return expect_anything(handle);
  if (residency.is_trusting() && !may_trust()) {
    recompute_policy->distrusts();
    if (Status status = residency.distrust(); !status.ok()) return status;
  }
  const bool rehearses = begin_rehearsal();
  if (!any && !rehearses) return {};
  Status status = info.again ? Status() : recompute_planned(handle);
  if (status.ok() && !is_vouched_for) status = expect_anything(handle);
  std::vector<Versions::BufferNumber> read, written;
  for (const Versions::Operand& operand : versions->arriving()) {
    if (operand.use.writes) written.push_back(operand.buffer);
    if (operand.use.reads && versions->is_dropped(operand.buffer)) read.push_back(operand.buffer);
  }
  if (status.ok()) status = recompute_one_by_one(read, handle, RecomputeReason::kAccessed);
  if (status.ok()) status = copy_aside(written, handle);
  if (status.ok()) status = recompute_one_by_one(versions->lost_without(written), handle, RecomputeReason::kInputEnds);
  if (status.ok()) status = recompute_one_by_one(versions->too_old(), handle, RecomputeReason::kForgotten);
  if (rehearses) status = status.ok() ? rehearse(*arrived.relaunch, handle) : skip_rehearsal(status);
  info = arrived;
  // Reruns were prepared in place of these operands.
  if (given_everything) {
    ++resolution;
    operands.clear();
    add_all();
    named_operands = told_operands = 0;
  } else {
    static_cast<void>(collect_operands(given, info.follows));
  }
  if (status.is_out_of_memory()) return refuse("an operation that has to run again", budget_bytes, true);
  if (!status.ok()) return status;
  for (const Versions::Operand& operand : versions->arriving()) {
    if (!versions->is_dropped(operand.buffer)) continue;
    THERMOCLINE_CHECK(!operand.use.reads, "what is read has contents");
    if (!operand.use.writes) continue;
    overwriting.push_back({operand.buffer, operand.address});
    residency.state_of(heap.find(operand.address)->block()).dropped = false;
  }
  return {};
}

// Reruns of the plan count as its places, whether or not they are still needed.
Status Engine::State::recompute_planned(StreamHandle handle) {
  const std::uint32_t planned = recompute_policy->planned_runs();
  if (planned == 0) return {};
  std::vector<Versions::BufferNumber> wanted;
  for (const BlockState* const state : recompute_policy->recomputed()) {
    heap.for_each_buffer(*state->block, [&](const Buffer& buffer) {
      if (versions->is_dropped(buffer.number())) wanted.push_back(buffer.number());
    });
  }
  return recompute(wanted, handle, RecomputeReason::kPlanned, true);
}

Status Engine::State::recompute_one_by_one(std::span<const Versions::BufferNumber> buffers, StreamHandle handle,
                                           RecomputeReason reason) {
  for (const Versions::BufferNumber& buffer : buffers) {
    if (!versions->is_dropped(buffer)) continue;
    if (Status status = recompute({&buffer, 1}, handle, reason, false); !status.ok()) return status;
  }
  return {};
}

Status Engine::State::recompute_all() {
  if (versions == nullptr || !versions->any_dropped()) return {};
  put_back_overwriting();
  return recompute_one_by_one(versions->dropped(), StreamHandle{}, RecomputeReason::kAllNeeded);
}

Status Engine::State::run_nothing_again() {
  if (versions == nullptr) return {};
  if (Status status = recompute_all(); !status.ok()) return status;
  versions->forget_contents();
  return {};
}

Status Engine::State::recompute(std::span<const Versions::BufferNumber> buffers, StreamHandle handle,
                                RecomputeReason reason, bool as_planned) {
  const std::optional<Recipe> recipe = versions->recipe_for(buffers);
  THERMOCLINE_CHECK(recipe || buffers.size() > 1, "what was dropped can be recomputed");
  // Together they need too many runs for one recipe.
  if (!recipe) return recompute_one_by_one(buffers, handle, reason);
  if (options.movements != nullptr) options.movements->recomputing(reason);
  std::vector<DeviceAddress> at(recipe->values.size());
  recomputing = true;
  const Status status = run(*recipe, handle, as_planned, &at);
  recomputing = false;
  // Some of them are about to be freed.
  operands.clear();
  for (std::size_t v = 0; v < at.size(); ++v) {
    if (at[v] == DeviceAddress{}) continue;
    Buffer* const buffer = heap.find(at[v]);
    if (!recipe->values[v].own) {
      release(*buffer);
    } else if (status.ok()) {
      if (verification != nullptr) verify_made_again(*buffer);
      versions->restored(buffer->number());
      ++counters.recomputed_buffers;
      counters.recomputed_bytes += buffer->block().bytes();
      if (options.movements != nullptr) options.movements->recomputed(whole_unit_of(*buffer), reason);
    } else {
      residency.drop_contents(residency.state_of(buffer->block()));
    }
  }
  return status;
}

// `at`: the address of each value; none: not yet, or not any more.
Status Engine::State::run(const Recipe& recipe, StreamHandle handle, bool as_planned, std::vector<DeviceAddress>* at) {
  const std::uint32_t planned = as_planned ? recompute_policy->planned_runs() : 0;
  std::uint32_t r = 0;
  for (; r < recipe.runs.size(); ++r) {
    if (Status status = run_again(recipe, r, handle, at); !status.ok()) return status;
    for (std::size_t v = 0; v < at->size(); ++v) {
      const Recipe::Value& value = recipe.values[v];
      if (value.own || value.last_run != r || (*at)[v] == DeviceAddress{}) continue;
      release(*heap.find(std::exchange((*at)[v], DeviceAddress{})));
    }
    if (r < planned) recompute_policy->ran_again(r);
  }
  for (; r < planned; ++r) recompute_policy->ran_again(r);
  return {};
}

Status Engine::State::run_again(const Recipe& recipe, std::uint32_t index, StreamHandle handle,
                                std::vector<DeviceAddress>* at) {
  const Recipe::Run& run = recipe.runs[index];
  const std::span<const Versions::Operand> known = versions->operands_of(run.operation);
  std::vector<MemoryAccess> list;
  std::vector<DeviceAddress> addresses;
  for (std::size_t i = 0; i < known.size(); ++i) {
    DeviceAddress address = versions->address_of(run.operation, i);
    if (const std::uint32_t v = recipe.operands[run.first_operand + i]; v != Recipe::kInPlace) {
      DeviceAddress& place = (*at)[v];
      if (place == DeviceAddress{} && recipe.values[v].own) {
        place = known[i].address;
        residency.state_of(heap.find(place)->block()).dropped = false;
      } else if (place == DeviceAddress{}) {
        if (Status status = allocate_scratch(known[i].bytes, clock.index_of(handle), &place); !status.ok())
          return status;
      }
      address = place;
    }
    addresses.push_back(address);
    list.push_back({address, known[i].bytes, known[i].use.writes ? Access::kWrite : Access::kRead});
  }
  if (Status status = make_ready(list, handle); !status.ok()) return status;
  const Status launched = options.relauncher->relaunch(versions->id_of(run.operation), handle, addresses);
  if (!launched.ok()) return launched;
  was_submitted(handle);
  if (KernelTrial* const trial = versions->trial_of(run.operation)) trial->ran_again();
  ++counters.recomputed_operations;
  counters.recomputed_ns += versions->nanoseconds_of(run.operation);
  return {};
}

// Prepares the operands of an operation of our own, which can then be submitted to the stream.
Status Engine::State::make_ready(std::span<const MemoryAccess> list, StreamHandle handle) {
  info = {};
  host_read = nullptr;
  migration.keep(nullptr);
  begin_operands(list);
  if (Status status = make_operands_resident(); !status.ok()) return status;
  const StreamIndex on = clock.index_of(handle);
  for (const BlockState* state : operands) {
    // It may run in another stream than the work that made its operands, and than work that still reads them.
    if (Status status = clock.wait_all(on, state->wait_for); !status.ok()) return status;
    if (Status status = clock.wait_all(on, state->former); !status.ok()) return status;
    if (Status status = clock.wait_all(on, state->block->uses); !status.ok()) return status;
  }
  return {};
}

void Engine::State::was_submitted(StreamHandle handle) {
  stream = clock.index_of(handle);
  const Use use{stream, clock.advance(stream)};
  for (BlockState* state : operands) {
    residency.accessed(*state, operation);
    state->block->uses.add(use);
    // Later users must wait for it, in any order in which the program may run them.
    state->wait_for.add(use);
  }
}

// Copies small inputs of dropped contents before they are overwritten. Dependents of others are recomputed.
Status Engine::State::copy_aside(std::span<const Versions::BufferNumber> written, StreamHandle handle) {
  if (!keeps_inputs()) return {};
  for (const Versions::Operand& operand : versions->arriving()) {
    if (std::ranges::find(written, operand.buffer) == written.end()) continue;
    if (!versions->is_worth_a_copy(operand.buffer, operand.bytes)) continue;
    // Copying moves the operands of the arriving operation, but not its record.
    if (Status status = copy_aside(operand, handle); !status.ok()) return status;
  }
  return {};
}

// The copy is detained, like a buffer that the program has freed and that is kept.
Status Engine::State::copy_aside(const Versions::Operand& input, StreamHandle handle) {
  DeviceAddress to;
  recomputing = true;
  Status status = allocate_scratch(input.bytes, clock.index_of(handle), &to);
  recomputing = false;
  if (!status.ok()) return status.loses_the_context() ? status : Status();
  Buffer& copy = *heap.find(to);
  const Block& block = copy.block();
  // Other scratch is freed before anything else is fetched; this has to be held together with all other memory.
  const bool is_held = block.live_buffers() > 1 || !options.policy->evicts() ||
                       host_holds(held_block_bytes, budget_bytes - external_bytes, block);
  if (!is_held) status = Status::out_of_memory();
  if (status.ok()) status = copy_by_ourselves(to, input.address, input.bytes, handle);
  operands.clear();
  if (!status.ok()) {
    release(copy);
    return status.loses_the_context() ? status : Status();
  }
  versions->copied_aside(input.buffer, copy.number(), to);
  detain(copy);
  return {};
}

Status Engine::State::allocate_scratch(Bytes bytes, StreamIndex hint, DeviceAddress* out) {
  Buffer* buffer = nullptr;
  if (Status status = place(bytes, hint, &buffer); !status.ok()) return status;
  residency.adopt(*buffer);
  if (buffer->block().live_buffers() == 1) held_block_bytes += buffer->block().bytes();
  *out = buffer->address();
  if (annotations != nullptr && told_scratch.insert(buffer).second) annotations->add(buffer->address(), bytes);
  return {};
}

void Engine::State::note_submission(Use use) {
  if (!is_vouched_for) not_vouched_for.add(use);
  if (verification != nullptr && versions->is_arriving()) verify_submission();
  versions->submitted();
  overwriting.clear();
}

// The operation that would have overwritten these buffers was not submitted.
void Engine::State::put_back_overwriting() {
  for (const Overwriting& one : std::exchange(overwriting, {})) {
    const Buffer* const buffer = heap.find(one.address);
    if (buffer != nullptr && versions->is_dropped(one.number))
      residency.drop_contents(residency.state_of(buffer->block()));
  }
}

bool Engine::State::drop_block(BlockState& state) {
  const Block& block = *state.block;
  const std::span<const EvictionUnit> units = state.units();
  const bool pinned_units = std::ranges::any_of(units, [](const EvictionUnit& unit) { return unit.pins > 0; });
  if (state.dropped || block.is_slab() || state.pins > 0 || pinned_units || clock.is_blocked(block.uses)) return false;
  if (!residency.is_trusting() || residency.has_stopped() || clock.any_blocked() || clock.is_recording()) return false;
  const Buffer* only = nullptr;
  heap.for_each_buffer(block, [&only](const Buffer& buffer) { only = &buffer; });
  const Versions::BufferNumber number = only->number();
  if (versions->is_copied_aside(number)) return false;
  if (versions->current(number) == kNoVersion || !versions->drop(number)) return false;
  if (verification != nullptr && !verify_drop(state, *only)) {
    versions->restored(number);
    return false;
  }
  ++counters.dropped_buffers;
  counters.dropped_bytes += block.bytes();
  if (options.movements != nullptr) options.movements->dropped(whole_unit_of(*only));
  residency.drop_contents(state);
  return true;
}

void Engine::State::drop_all() {
  std::vector<BlockState*> all;
  heap.for_each_block([&](Block& block) { all.push_back(&residency.state_of(block)); });
  for (BlockState* const state : all) drop_block(*state);
}

Status Engine::State::drop(DeviceAddress address) {
  if (versions == nullptr) return Status::not_supported();
  put_back_overwriting();
  BlockState* state = nullptr;
  if (Status status = own_block_at(address, &state); !status.ok()) return status;
  return state != nullptr && drop_block(*state) ? Status() : Status::not_supported();
}

// Published policies, with which ours are compared, do not keep inputs.
bool Engine::State::keeps_inputs() const { return options.schedules == nullptr; }

bool Engine::State::lets_go(const Buffer& buffer) {
  const Versions::BufferNumber number = buffer.number();
  // Scratch can be freed; buffers that the program has freed wait until the recipe has run.
  if (recomputing) return versions->current(number) == kNoVersion;
  if (versions->is_copied_aside(number) && versions->is_read(number)) return false;
  put_back_overwriting();
  if (keeps_inputs() && versions->is_kept(number, buffer.requested())) {
    // For the policy the buffer is gone.
    if (buffer.block().live_buffers() == 1) policy->freed(buffer.block());
    return false;
  }
  const std::vector<Versions::BufferNumber> lost = versions->lost_without({&number, 1});
  // The stream of the last operation may be gone.
  if (!recompute_one_by_one(lost, StreamHandle{}, RecomputeReason::kInputEnds).ok()) return false;
  if (verification != nullptr) verification->forget(number);
  versions->freed(number);
  return true;
}

}  // namespace thermocline
