// SPDX-License-Identifier: Apache-2.0
// Which blocks an operation touches: those that it was given, and those that words in memory lead to from there.
#include <algorithm>

#include "offload/engine_state.h"

namespace thermocline {

void Engine::State::add_operand(Block* block, Access access) {
  BlockState& state = residency.state_of(*block);
  const bool may_write = access != Access::kRead;
  if (state.listed == resolution) {
    state.may_write |= may_write;
    return;
  }
  state.listed = resolution;
  state.may_write = may_write;
  operands.push_back(&state);
}

void Engine::State::touch(const Touch& touch) {
  const DeviceAddress end = heap.range_begin() + heap.range_bytes();
  if (touch.address < heap.range_begin() || touch.address >= end) return;
  if (touch.bytes == 0) {
    // One past the end of a buffer is an address of its block, too, and never of another one (AddressSpace::take).
    if (Block* block = heap.block_at(touch.address)) add_operand(block, touch.access);
    return;
  }
  for (DeviceAddress at = touch.address; at < touch.address + touch.bytes && at < end;) {
    Block* block = heap.block_at(at);
    if (block != nullptr) add_operand(block, touch.access);
    at = block != nullptr && at < block->end() ? block->end() : at + heap.page_bytes();
  }
}

void Engine::State::resolve(std::span<const Touch> list, const OperationInfo& what) {
  hear();
  looks.abandoned();
  info = what;
  touches = list.size();
  const bool by_tables = collect_operands(list, what.follows);
  if (any_absent()) {
    // Room has to be made: what is parked goes first, and may be what a stale word led to.
    bool again = reclaim(pressed ? Reclaim::kParked : Reclaim::kForget);
    pressed = true;
    // Nor is anything brought back for words that perhaps nobody has written.
    again |= by_tables && settle_looks(Wait::kYes);
    if (again) collect_operands(list, what.follows);
  }
  counters.followed += operands.size() - named_operands;
  if (what.follows && looks_at_tables && list.size() > 1 && is_given_small_buffers()) {
    looks.arriving(what, list, !led_to.empty());
  }
}

bool Engine::State::is_given_small_buffers() const {
  return std::any_of(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(named_operands),
                     [](const BlockState* state) { return state->block->is_slab(); });
}

bool Engine::State::settle_looks(Wait wait) {
  if (!looks.settle(wait)) return false;
  show_references();
  return true;
}

bool Engine::State::collect_operands(std::span<const Touch> list, bool follows) {
  if (!collect_operands(list, follows, true)) return false;
  if (operands_fit()) return true;
  // Tables of kernels need not lead to all that they may lead to.
  const std::size_t before = operands.size();
  static_cast<void>(collect_operands(list, follows, false));
  counters.left_out_targets += before - operands.size();
  return true;
}

bool Engine::State::collect_operands(std::span<const Touch> list, bool follows, bool tables) {
  ++resolution;
  operands.clear();
  led_to.clear();
  for (const Touch& one : list) touch(one);
  named_operands = operands.size();
  if (!follows || references.empty()) return false;
  const bool by_tables = references.follow(list, tables, &led_to);
  for (const DeviceAddress address : led_to) touch({address, 0, Access::kUnknown});
  return by_tables;
}

bool Engine::State::operands_fit() const {
  Bytes bytes = pinned_block_bytes + foreign_bytes;
  for (const BlockState* state : operands) bytes += state->pins == 0 ? state->block->bytes() : 0;
  return bytes <= budget_bytes;
}

bool Engine::State::any_absent() const {
  return std::any_of(operands.begin(), operands.end(), [](const BlockState* state) { return !state->resident(); });
}

void Engine::State::resolve_all() {
  looks.abandoned();
  info = {};
  reclaim();
  ++resolution;
  touches = 0;
  operands.clear();
  heap.for_each_block([this](Block& block) { add_operand(&block, Access::kUnknown); });
}

}  // namespace thermocline
