// SPDX-License-Identifier: Apache-2.0
// Pinned memory: buffers, by their blocks, and during a call the eviction units that a range lies in, not all of a large
// buffer.
#include "offload/engine/engine_state.h"

namespace thermocline {

void Engine::State::let_go_pin(const Buffer& buffer) {
  if (pinned.erase(&buffer) == 0) return;
  --counters.pinned_buffers;
  unpin_block(residency.state_of(buffer.block()));
  note_what_is_slow();
}

void Engine::State::unpin(const Buffer& buffer) {
  const auto pin = pinned.find(&buffer);
  if (pin == pinned.end() || pin->second.times == 0) return;
  if (--pin->second.times == 0 && !pin->second.for_good) let_go_pin(buffer);
}

void Engine::State::keep_pinned(const Buffer& buffer) {
  if (const auto pin = pinned.find(&buffer); pin != pinned.end()) pin->second.for_good = true;
}

Status Engine::State::pin(DeviceAddress address, const char* reason, bool for_good) {
  const Buffer* const known = heap.find(address);
  if (const auto pin = known == nullptr ? pinned.end() : pinned.find(known); pin != pinned.end()) {
    if (for_good) pin->second.for_good = true;
    if (!for_good) ++pin->second.times;
    return {};
  }
  // A pin of a buffer ends when it is freed, so it must not be cached.
  reclaim(Reclaim::kForget);
  if (Status status = recompute_all(); !status.ok()) return status;
  const Buffer* buffer = heap.find(address);
  if (buffer == nullptr) return Status::invalid_value();
  const Block* block = &buffer->block();
  BlockState* state = &residency.state_of(*block);
  if (Status status = residency.make_whole_resident(*state, FetchReason::kPinned); !status.ok()) {
    return status.is_out_of_memory() ? refuse("a buffer that has to stay on the device", block->bytes()) : status;
  }
  pin_block(*state);
  if (versions != nullptr) versions->changed_unseen(buffer->number());
  ++counters.pinned_buffers;
  pinned.emplace(buffer, Pin{.reason = reason, .times = for_good ? 0u : 1u, .for_good = for_good});
  note_what_is_slow();
  return {};
}

// The bytes of the block's own pinned units, which count if the block itself is not pinned.
Bytes Engine::State::held_unit_bytes(const BlockState& state) {
  Bytes bytes = 0;
  for (const EvictionUnit& unit : state.parts()) bytes += unit.pins > 0 ? unit.bytes() : 0;
  return bytes;
}

void Engine::State::show_room() {
  const Bytes taken = pinned_block_bytes + external_bytes;
  room.store(host_mappings.full() || taken > budget_bytes ? 0 : budget_bytes - taken, std::memory_order_relaxed);
}

void Engine::State::pin_block(BlockState& state) {
  if (state.pins++ > 0) return;
  pinned_block_bytes += state.block->bytes() - held_unit_bytes(state);
  policy->pinned(*state.block);
  show_room();
  if (audit != nullptr) audit->pinned(*state.block);
}

void Engine::State::unpin_block(BlockState& state) {
  if (--state.pins > 0) return;
  pinned_block_bytes -= state.block->bytes() - held_unit_bytes(state);
  show_room();
}

Status Engine::State::hold_on_device(std::span<const AddressRange> ranges, const char* reason, std::uint64_t* hold) {
  // A hold ends when the buffer is freed, so it must not be cached.
  reclaim(Reclaim::kForget);
  looks.abandoned();
  info = {};
  host_read = nullptr;
  migration.keep(nullptr);
  if (Status status = recompute_all(); !status.ok()) return status;
  std::vector<MemoryAccess> all;
  for (const AddressRange& range : ranges) all.push_back({range.at, range.bytes, Access::kUnknown});
  begin_operands(all);
  given = all;
  given_everything = false;
  Status status = make_operands_resident(FetchReason::kPinned);
  if (status.is_out_of_memory()) {
    Bytes wanted = 0;
    for (const BlockState* state : operands) wanted += state->wanted_bytes();
    status = refuse(reason, wanted, true);
  }
  given = {};
  if (!status.ok()) return status;
  Held held{std::this_thread::get_id(), {}};
  for (BlockState* const state : operands) {
    HeldUnits& of_block = held.blocks.emplace_back(HeldUnits{state->block, {}});
    const std::span<EvictionUnit> units = state->units();
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (!state->wants(units[i])) continue;
      of_block.units.push_back(i);
      if (units[i].pins++ == 0 && state->pins == 0) pinned_block_bytes += units[i].bytes();
    }
    if (audit != nullptr) audit->pinned(*state->block);
    if (versions == nullptr) continue;
    heap.for_each_buffer(*state->block, [this](const Buffer& buffer) { versions->changed_unseen(buffer.number()); });
  }
  show_room();
  *hold = ++newest_hold;
  held_ranges.emplace(*hold, std::move(held));
  return {};
}

void Engine::State::let_go(std::uint64_t hold) {
  const auto found = held_ranges.find(hold);
  if (found == held_ranges.end()) return;
  for (const HeldUnits& held : found->second.blocks) {
    BlockState& state = residency.state_of(*held.block);
    for (const std::size_t i : held.units) {
      EvictionUnit& unit = state.units()[i];
      if (--unit.pins == 0 && state.pins == 0) pinned_block_bytes -= unit.bytes();
    }
  }
  held_ranges.erase(found);
  show_room();
}

// The block is about to be freed, and its holds end with it.
void Engine::State::forget_held(const Block& block) {
  if (held_ranges.empty()) return;
  const BlockState& state = residency.state_of(block);
  if (state.pins == 0) pinned_block_bytes -= held_unit_bytes(state);
  show_room();
  for (auto& [hold, all] : held_ranges) {
    std::erase_if(all.blocks, [&](const HeldUnits& held) { return held.block == &block; });
  }
}

// Bytes that other threads release when their calls return, and that nothing else keeps. `beside`: without bytes that
// the operation in preparation uses itself.
Bytes Engine::State::held_by_other_threads(bool beside) {
  std::unordered_set<const EvictionUnit*> by_others, by_this;
  for (const auto& [hold, held] : held_ranges) {
    auto& units = held.thread == std::this_thread::get_id() ? by_this : by_others;
    for (const HeldUnits& of_block : held.blocks) {
      const BlockState& state = residency.state_of(*of_block.block);
      if (state.pins > 0) continue;
      const bool is_operand = beside && state.listed == resolution;
      for (const std::size_t i : of_block.units) {
        const EvictionUnit& unit = state.parts()[i];
        if (!is_operand || !state.wants(unit)) units.insert(&unit);
      }
    }
  }
  Bytes bytes = 0;
  for (const EvictionUnit* const unit : by_others) bytes += by_this.contains(unit) ? 0 : unit->bytes();
  return bytes;
}

}  // namespace thermocline
