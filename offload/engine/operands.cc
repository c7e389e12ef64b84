// SPDX-License-Identifier: Apache-2.0
// Which blocks an operation accesses: those that it was given, and those that are reachable from there through
// addresses stored in memory. If not all of them fit, the operation is refused. Only if everything evicted is mapped to
// its host copy (host_fallback = "full") may some be left out.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "driver/locks.h"
#include "driver/nvtx_range.h"
#include "offload/engine/engine_state.h"

namespace thermocline {
namespace {

// If not everything that an operation may reach fits, one part in this many of the budget is left for evictions in
// progress, and for pages that are being copied.
constexpr Bytes kShareLeftFree = 8;

}  // namespace

// Inlined, like access(): these two are most of the cost of an operation's list.
[[gnu::always_inline]] inline void Engine::State::add_operand(Block* block, Access access) {
  BlockState& state = residency.state_of(*block);
  const bool may_write = access != Access::kRead;
  if (state.listed != resolution) [[likely]] {
    state.listed = resolution;
    state.whole = true;
    state.may_write = may_write;
    operands.push_back(&state);
    return;
  }
  state.may_write |= may_write || !state.whole;
  state.whole = true;
}

void Engine::State::list_operand(BlockState& state) {
  if (state.listed == resolution) return;
  state.listed = resolution;
  state.whole = state.may_write = false;
  operands.push_back(&state);
}

// Small buffers share their pages; and under a full host fallback all of a block is in one place.
void Engine::State::add_range(Block* block, const MemoryAccess& access) {
  if (block->is_slab() || host_mappings.full()) return add_operand(block, access.access);
  BlockState& state = residency.state_of(*block);
  list_operand(state);
  const DeviceAddress end = access.address + access.bytes, contents_end = block->begin() + block->contents_end();
  for (EvictionUnit& unit : state.units()) {
    const DeviceAddress unit_end = unit.begin() + unit.bytes();
    if (unit.begin() >= end || unit_end <= access.address) continue;
    const bool covers = access.access == Access::kWrite && info.overwrites && access.address <= unit.begin() &&
                        (end >= unit_end || end >= contents_end);
    const bool first = unit.named != resolution;
    unit.overwritten = covers && (first || unit.overwritten);
    unit.may_write = access.access != Access::kRead || (!first && unit.may_write);
    unit.named = resolution;
  }
}

[[gnu::always_inline]] inline void Engine::State::access(const MemoryAccess& access) {
  if (access.address.value - heap.range_begin().value >= heap.range_bytes()) return;
  if (access.bytes != 0) return access_range(access);
  if (Block* block = heap.block_meant_by(access.address)) add_operand(block, access.access);
}

void Engine::State::access_range(const MemoryAccess& access) {
  const DeviceAddress end = heap.range_begin() + heap.range_bytes();
  for (DeviceAddress at = access.address; at < access.address + access.bytes && at < end;) {
    Block* block = heap.block_at(at);
    if (block != nullptr) add_range(block, access);
    at = block != nullptr && at < block->end() ? block->end() : at + heap.page_bytes();
  }
}

Status Engine::State::resolve(std::span<const MemoryAccess> list, const OperationInfo& what, bool again,
                              StreamHandle handle) {
  note_cache_changes();
  if (!detained.empty()) release_detained();
  looks.abandoned();
  info = what;
  info.again = again;
  is_part = what.again;
  accesses = list.size();
  given = list;
  given_everything = false;
  References::Followed followed = collect_operands(list, what.follows);
  const bool to_host = what.reads_host_copy && list.size() == 1 && list[0].access == Access::kRead;
  host_read = to_host ? evicted_at({list[0].address, list[0].bytes}) : nullptr;
  migration.keep(host_read);
  if (host_read != nullptr) {
    host_read_at = list[0].address;
    return {};
  }
  if (any_nonresident() || (followed.anywhere && residency.any_nonresident())) {
    // Room has to be made: cached buffers are freed first, and may be what a stale word points to.
    bool changed = reclaim(pressed ? Reclaim::kCached : Reclaim::kForget);
    pressed = true;
    // Nothing is fetched for words that perhaps no kernel has written.
    changed |= followed.by_tables && collect_probes(Wait::kYes);
    if (clock.has_deferred()) return Status::not_ready();
    if (changed) followed = collect_operands(list, what.follows);
    const bool must_read = followed.by_tables && (followed.anywhere || operand_bytes() > budget_bytes);
    if (must_read && options.host_is_readable) {
      if (Status status = read_tables(list, handle, followed.anywhere); !status.ok()) return status;
    } else if (followed.anywhere) {
      add_all();
    }
    if (operand_bytes() > budget_bytes && host_mappings.holds()) leave_out_what_is_mapped();
    if (what.reads_host_copy && operand_bytes() > budget_bytes) {
      if (Status status = leave_source_on_host(list); !status.ok()) return status;
    }
  }
  counters.followed += operands.size() - named_operands;
  // The addresses that it stores may also come from globals, or from the table itself.
  const bool is_given_addresses = list.size() > 1 || !reachable.empty();
  if (what.is_kernel() && looks_at_tables && is_given_addresses && is_given_small_buffers()) {
    looks.arriving(what, list, !reachable.empty());
  }
  return {};
}

bool Engine::State::is_given_small_buffers() const {
  // Some of them may have been left out (leave_out_what_is_mapped).
  return any_small_buffers(std::span(operands).first(std::min(told_operands, operands.size())));
}

bool Engine::State::any_small_buffers(std::span<BlockState* const> blocks) {
  return std::ranges::any_of(blocks,
                             [](const BlockState* state) { return References::may_hold_a_table(*state->block); });
}

bool Engine::State::collect_probes(Wait wait) {
  if (!looks.evaluate_completed(wait)) return false;
  show_references();
  return true;
}

// Kernels may have written more addresses than there are: the buffers that may be reached by these do not fit, or are
// not known at all. So the present contents of their tables are read, in the operation's stream before it runs.
Status Engine::State::read_tables(std::span<const MemoryAccess> list, StreamHandle handle, bool may_reach_anything) {
  const StreamIndex in = clock.index_of(handle);
  References::TableWords read;
  // Memory that has not been written yet may hold addresses of former owners. So reading can only remove reachable
  // buffers, unless nothing is known about these at all.
  std::vector<BlockState*> may_reach;
  if (!may_reach_anything) may_reach = operands;
  std::ranges::sort(may_reach);
  bool anywhere = false;
  for (;;) {
    begin_operands(list);
    std::vector<AddressRange> unread;
    anywhere = references.follow_read(list, read, &reachable, &unread);
    if (unread.empty()) break;
    for (const AddressRange range : unread) {
      // Uploads of a graph are told before its launch (Engine::hold), and are not there yet.
      std::vector<DeviceAddress>& words = read[{range.at.value, range.end().value}];
      if (Status status = read_table(range, in, !info.is_kernel(), &words); !status.ok()) return status;
    }
  }
  for (const DeviceAddress address : reachable) {
    Block* const block = heap.block_meant_by(address);
    const bool may = block != nullptr && std::ranges::binary_search(may_reach, &residency.state_of(*block));
    if (may || may_reach_anything) access({address, 0, Access::kUnknown});
  }
  if (anywhere) add_all();
  return {};
}

// The stream waits for all work that may still write there. So once the copy has completed, what was read stays there
// until other work is submitted. Blocked streams that may write somewhere beside it are not waited for.
Status Engine::State::read_table(AddressRange range, StreamIndex in, bool copies_may_come,
                                 std::vector<DeviceAddress>* words) {
  if (clock.is_behind_blocked(in)) return Status::not_ready();
  Block* const block = heap.block_at(range.at);
  if (block == nullptr) return {};
  BlockState* state = &residency.state_of(*block);
  if (Status status = recompute_all(); !status.ok()) return status;
  Status status = residency.make_whole_resident(*state, FetchReason::kAccessed);
  if (status.is_out_of_memory()) return refuse("a table of addresses", block->bytes(), true);
  if (!status.ok()) return status;
  UseSet before = state->wait_for;
  before.join(state->former);
  clock.join_without_blocking(block->uses, &before);
  if (status = clock.wait_all(in, before); !status.ok()) return status;
  std::vector<std::byte> bytes(range.bytes);
  {
    const UnorderedReads reads(options.annotate);
    status = foundation->driver.copy_to_host(bytes.data(), range.at, range.bytes, clock.handle_of(in));
    if (!status.ok()) return status;
  }
  ++counters.table_reads;
  // The copy goes to memory of this call.
  const WaitsInPlace own_copy;
  const StreamClock::Deferring none(clock, false);
  const Use use{in, clock.advance(in)};
  block->uses.add(use);
  if (status = clock.synchronize(use); !status.ok()) return status;
  std::vector<HeldWord> stored;
  for (Bytes at = round_up(range.at.value, sizeof(std::uint32_t)) - range.at.value;
       at + sizeof(std::uint64_t) <= range.bytes; at += sizeof(std::uint32_t)) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    // One past the end of the reservation may be one past the end of a buffer.
    if (word - heap.range_begin().value > heap.range_bytes()) continue;
    words->push_back({word});
    stored.push_back({range.at + at, word});
  }
  if (!clock.passed(block->uses)) return {};
  references.now_hold(range, stored, copies_may_come);
  show_references();
  return {};
}

Status Engine::State::read_stored(AddressRange range, StreamHandle handle) {
  note_cache_changes();
  const Block* const block = heap.block_at(range.at);
  const bool is_table = block != nullptr && range.end() <= block->end() && range.bytes <= References::kMostTableBytes;
  if (!is_table || !options.host_is_readable || !residency.any_nonresident()) return {};
  if (looks.any_under_way()) collect_probes(Wait::kYes);
  if (clock.has_deferred()) return Status::not_ready();
  if (!references.may_be_stored_in(range)) return {};
  std::vector<DeviceAddress> words;
  return read_table(range, clock.index_of(handle), false, &words);
}

bool Engine::State::leads_to_a_copy(const BlockState& state) {
  const std::span<const EvictionUnit> units = state.parts();
  return std::all_of(units.begin(), units.end(),
                     [](const EvictionUnit& unit) { return unit.mapped() || unit.mapped_to_host; });
}

// Under a full host fallback, everything evicted is mapped to its host copy. The nearest buffers come first; mapped
// ones that do not fit into seven eighths of the budget may be used at their host copies.
void Engine::State::leave_out_what_is_mapped() {
  const std::vector<BlockState*> all = operands;
  operands.resize(named_operands);
  Bytes bytes = operand_bytes();
  const auto followed = std::span(all).subspan(named_operands);
  const auto add = [&](BlockState* state) {
    operands.push_back(state);
    bytes += state->pins == 0 ? state->block->bytes() : 0;
  };
  for (BlockState* const state : followed) {
    if (!leads_to_a_copy(*state)) add(state);
  }
  for (BlockState* const state : followed) {
    if (!leads_to_a_copy(*state)) continue;
    const Bytes more = state->pins == 0 ? state->block->bytes() : 0;
    if (bytes + more <= budget_bytes - budget_bytes / kShareLeftFree) {
      add(state);
    } else {
      state->listed = 0;
      left_out.push_back(state);
    }
  }
  counters.unfetched_targets += all.size() - operands.size();
}

void Engine::State::begin_operands(std::span<const MemoryAccess> list) {
  ++resolution;
  operands.clear();
  left_out.clear();
  reachable.clear();
  bool any_found = false;
  for (const MemoryAccess& one : list) {
    any_found |= one.found != 0;
    if (one.found == 0) access(one);
  }
  named_operands = operands.size();
  for (const MemoryAccess& one : any_found ? list : std::span<const MemoryAccess>()) {
    if (one.found != 0) access(one);
  }
  told_operands = operands.size();
}

References::Followed Engine::State::collect_operands(std::span<const MemoryAccess> list, bool follows) {
  begin_operands(list);
  if (!follows || references.empty()) return {};
  const References::Followed followed = references.follow(list, &reachable);
  for (const DeviceAddress address : reachable) access({address, 0, Access::kUnknown});
  return followed;
}

Bytes Engine::State::operand_bytes() const {
  Bytes bytes = pinned_block_bytes + external_bytes;
  for (const BlockState* state : operands) {
    if (state->pins > 0) continue;
    for (const EvictionUnit& unit : state->parts()) bytes += state->wants(unit) && unit.pins == 0 ? unit.bytes() : 0;
  }
  return bytes;
}

bool Engine::State::any_nonresident() const {
  return std::ranges::any_of(operands, [](const BlockState* state) { return !state->has_wanted(); });
}

bool Engine::State::fits(std::span<const MemoryAccess> list) {
  note_cache_changes();
  begin_operands(list);
  const Bytes needed = operand_bytes();
  const bool fits = needed <= budget_bytes || (raise_budget(needed) && needed <= budget_bytes);
  operands.clear();
  return fits;
}

Demand Engine::State::demand_of(std::span<const MemoryAccess> list) {
  note_cache_changes();
  const References::Followed followed = collect_operands(list, true);
  if (followed.anywhere) add_all();
  Demand demand;
  demand.stays = pinned_block_bytes + external_bytes;
  demand.bytes = demand.certain = operand_bytes() - demand.stays;
  if (followed.by_tables && options.host_is_readable) {
    begin_operands(list);
    if (references.follow_certain(list, &reachable)) add_all();
    for (const DeviceAddress address : reachable) access({address, 0, Access::kUnknown});
    demand.certain = operand_bytes() - demand.stays;
  }
  raise_budget(demand.bytes + demand.stays);
  demand.budget = budget_bytes;
  demand.takes_turns = options.policy->evicts() && !residency.has_stopped() && !options.soft_limit;
  operands.clear();
  return demand;
}

Status Engine::State::fits_beside(std::span<const MemoryAccess> list, Bytes bytes) {
  if (options.soft_limit || host_mappings.full()) return {};
  note_cache_changes();
  // Only graphs are asked about with the bytes that they allocate.
  info = {.follows = true};
  given = list;
  given_everything = false;
  begin_operands(list);
  // A part of the external bytes may be memory that the driver holds for an earlier such operation.
  const Bytes more = bytes - std::min(bytes, external_bytes);
  Status status;
  const Bytes needed = operand_bytes() + more;
  if (needed > budget_bytes && !(raise_budget(needed) && needed <= budget_bytes)) {
    status = may_fit_later(needed) ? Status::not_ready() : refuse_operation(more);
  }
  operands.clear();
  given = {};
  return status;
}

Bytes Engine::State::unit_bytes_from(DeviceAddress at) {
  Block* const block = heap.block_at(at);
  if (block == nullptr) return 0;
  for (const EvictionUnit& unit : residency.state_of(*block).units()) {
    if (const DeviceAddress end = unit.begin() + unit.bytes(); at < end) return end - at;
  }
  return 0;
}

void Engine::State::add_all() {
  heap.for_each_block([this](Block& block) { add_operand(&block, Access::kUnknown); });
}

void Engine::State::resolve_all() {
  looks.abandoned();
  info = {};
  host_read = nullptr;
  migration.keep(nullptr);
  if (!detained.empty()) release_detained();
  reclaim();
  ++resolution;
  accesses = 0;
  given = {};
  given_everything = true;
  operands.clear();
  left_out.clear();
  add_all();
  named_operands = 0;
  if (operand_bytes() > budget_bytes && host_mappings.holds()) leave_out_what_is_mapped();
}

}  // namespace thermocline
