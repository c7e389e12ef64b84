// SPDX-License-Identifier: Apache-2.0
#include "offload/engine/known_operations.h"

#include <algorithm>
#include <utility>

#include "driver/check.h"
#include "offload/engine/engine_state.h"

namespace thermocline {

void KnownOperations::learn(const Heap& heap, std::span<const MemoryAccess> list, const OperationInfo& info,
                            std::span<BlockState* const> operands) {
  if (!may_know(list, info) || operands.size() > KnownOperation::kMost) return;
  if (known_.empty()) {
    known_.resize(std::size_t{1} << kBits);
    latest_.resize(std::size_t{1} << kBits);
  }
  const std::uint64_t key = key_of(list, info);
  if (std::exchange(latest_[place_of(key)], key) != key) return;
  const bool follow_from_addresses = std::ranges::all_of(
      list, [&](const MemoryAccess& one) { return one.bytes == 0 && !one.found && heap.stays_meant(one.address); });
  if (!follow_from_addresses) return;
  KnownOperation& one = known_[place_of(key)];
  if (one.has(operands) && one.is(list, info)) return;
  one.id = ++newest_;
  one.kind = info.kind;
  one.name = info.name;
  one.operator_class = info.operator_class;
  one.follows = info.follows;
  one.count = static_cast<std::uint32_t>(list.size());
  one.operand_count = static_cast<std::uint32_t>(operands.size());
  one.any_slab = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    one.addresses[i] = list[i].address;
    one.accesses[i] = list[i].access;
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    one.operands[i] = operands[i];
    one.serials[i] = operands[i]->block->serial();
    one.may_write[i] = operands[i]->may_write;
    one.any_slab |= operands[i]->block->is_slab();
  }
}

bool KnownOperation::has(std::span<BlockState* const> others) const {
  if (id == 0 || others.size() != operand_count) return false;
  for (std::size_t i = 0; i < operand_count; ++i) {
    if (operands[i] != others[i] || serials[i] != others[i]->block->serial() || may_write[i] != others[i]->may_write)
      return false;
  }
  return true;
}

void KnownOperations::validate(const Heap& heap) const {
  for (const KnownOperation& one : known_) {
    const auto is_there = [&](std::size_t i) {
      const Block* const block = one.operands[i]->block;
      return block != nullptr && block->serial() == one.serials[i];
    };
    std::size_t there = 0;
    while (there < one.operand_count && is_there(there)) ++there;
    if (one.id == 0 || there < one.operand_count) continue;
    for (std::size_t i = 0; i < one.count; ++i) {
      const Block* const meant = heap.block_meant_by(one.addresses[i]);
      const bool is_operand = std::ranges::any_of(
          one.all_operands(), [meant](const BlockState* operand) { return operand->block == meant; });
      THERMOCLINE_CHECK(is_operand, "An address means the block that it was found to mean, while that is there.");
    }
  }
}

// Whether only the operands have to be checked, and no state of an earlier operation has to be cleaned up by
// resolve().
bool Engine::State::is_undisturbed() const {
  return !caches.has_changes() && detained.empty() && !looks.has_arrived() && host_read == nullptr &&
         left_out.empty() && has_budget_of_its_own() && audit == nullptr && !tracks.load(std::memory_order_relaxed) &&
         (versions == nullptr || !may_run_short) && !host_mappings.full() && !residency.is_trusting();
}

// Whether the operands are the same allocations and are all resident.
[[gnu::always_inline]] inline bool Engine::State::are_as_they_were(const KnownOperation& known) {
  for (std::size_t i = 0; i < known.operand_count; ++i) {
    const BlockState& state = *known.operands.data()[i];
    const bool is_same = state.block != nullptr && state.block->serial() == known.serials.data()[i];
    if (!is_same || !state.resident()) return false;
  }
  return true;
}

// Makes the stream wait for other work in progress. False: the host would have to wait, without the lock.
[[gnu::always_inline]] inline bool Engine::State::wait_for_others(const KnownOperation& known, StreamIndex in) {
  for (const BlockState* const state : known.all_operands()) {
    if (state->wait_for.is_of_none_but(in) && state->former.is_of_none_but(in)) continue;
    const StreamClock::Deferring waits(clock, options.waits_without_lock);
    if (!clock.wait_all(in, state->wait_for).ok() || !clock.wait_all(in, state->former).ok()) return false;
  }
  return true;
}

// resolve() and prepare() for an operation that has come before, if everything that it accesses is on the device.
bool Engine::State::repeat(std::span<const MemoryAccess> list, const OperationInfo& what, StreamHandle handle) {
  if (!is_undisturbed() || (what.follows && !references.empty())) return false;
  const KnownOperation* const known = known_operations.find(list, what);
  if (known == nullptr) return false;
  if (!are_as_they_were(*known)) return false;
  // The pointers that it stores may have to be probed (resolve()).
  const bool may_store = looks_at_tables && list.size() > 1 && what.is_kernel();
  if (may_store && known->any_slab && any_small_buffers(known->all_operands())) return false;
  const StreamIndex in = clock.index_of(handle);
  if (!wait_for_others(*known, in)) return false;
  operands.clear();
  for (BlockState* const operand : known->all_operands()) operands.push_back(operand);
  named_operands = told_operands = operands.size();
  stream = in;
  info = what;
  is_part = false;
  accesses = list.size();
  given = list;
  given_everything = false;
  ++operation;
  ++counters.repeated_operations;
  residency.hold_resident(operands);
  std::uint32_t pins = 0;
  for (std::size_t i = 0; i < known->operand_count; ++i) {
    BlockState& state = *known->operands.data()[i];
    state.whole = true;
    state.may_write = known->may_write.data()[i];
    pins |= state.pins;
  }
  const InPlace as_planned(clock, false);
  if (policy->wants().arrivals && expects_shortage())
    policy->arriving({info, accesses, operands, live_bytes(), live_block_bytes(), pins == 0 ? known->id : 0});
  if (policy->wants().submitting) policy->submitting(handle);
  return true;
}

}  // namespace thermocline
