// SPDX-License-Identifier: Apache-2.0
// Which blocks an operation touches: those that it was given, and those that words in memory lead to from there.
#include <algorithm>

#include "offload/engine_state.h"

namespace thermocline {
namespace {

// Where not all fits that an operation may come to, so much of the budget is left for what is about to leave, and for
// pages that are being copied.
constexpr Bytes kPartLeftFree = 8;

}  // namespace

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
  if (!detained.empty()) release_detained();
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
  if (what.is_kernel() && looks_at_tables && list.size() > 1 && is_given_small_buffers()) {
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
  const bool by_tables = collect_operands(list, follows, true);
  if (led_to.empty() || operand_bytes() <= budget_bytes) return by_tables;
  const std::size_t before = operands.size();
  const std::vector<DeviceAddress> perhaps = led_to;
  // Tables of kernels need not lead to all that they may lead to.
  static_cast<void>(collect_operands(list, follows, false));
  if (operand_bytes() > budget_bytes && net.holds()) {
    const std::vector<DeviceAddress> known = led_to;
    static_cast<void>(collect_operands(list, false, false));
    for (const DeviceAddress target : known) {
      if (!leads_to_a_copy(target)) touch({target, 0, Access::kUnknown});
    }
    add_while_they_fit(known);
    led_to = known;
  }
  add_while_they_fit(perhaps);
  counters.left_out_targets += before - operands.size();
  return by_tables;
}

bool Engine::State::leads_to_a_copy(DeviceAddress target) {
  const Block* const block = heap.block_at(target);
  if (block == nullptr) return true;
  const std::span<const BlockPart> parts = residency.state_of(*block).parts();
  return std::all_of(parts.begin(), parts.end(), [](const BlockPart& part) { return part.mapped() || part.covered; });
}

// What is nearest comes first. What is left out may be used all the same: of what only may be led to, hardly; else its
// address leads to its copy on the host, and the work is slow (safety_net.h).
void Engine::State::add_while_they_fit(std::span<const DeviceAddress> targets) {
  Bytes bytes = operand_bytes();
  for (const DeviceAddress target : targets) {
    const Block* const block = heap.block_at(target);
    if (block == nullptr) continue;
    const BlockState& state = residency.state_of(*block);
    if (state.listed == resolution) continue;
    const Bytes more = state.pins == 0 ? block->bytes() : 0;
    if (bytes + more > budget_bytes - budget_bytes / kPartLeftFree) continue;
    bytes += more;
    touch({target, 0, Access::kUnknown});
  }
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

Bytes Engine::State::operand_bytes() const {
  Bytes bytes = pinned_block_bytes + foreign_bytes;
  for (const BlockState* state : operands) bytes += state->pins == 0 ? state->block->bytes() : 0;
  return bytes;
}

bool Engine::State::any_absent() const {
  return std::any_of(operands.begin(), operands.end(), [](const BlockState* state) { return !state->resident(); });
}

void Engine::State::resolve_all() {
  looks.abandoned();
  info = {};
  if (!detained.empty()) release_detained();
  reclaim();
  ++resolution;
  touches = 0;
  operands.clear();
  heap.for_each_block([this](Block& block) { add_operand(&block, Access::kUnknown); });
}

}  // namespace thermocline
