// SPDX-License-Identifier: Apache-2.0
#include "offload/engine/known_operations.h"

#include <algorithm>
#include <utility>

#include "driver/check.h"
#include "offload/engine/engine_state.h"

namespace thermocline {

namespace {

// One that is named by ranges notes this of each of its units.
bool is_perhaps_written(const BlockState& operand) {
  return std::ranges::any_of(operand.parts(), [&](const EvictionUnit& unit) { return operand.writes(unit); });
}
// It is accessed as if its address alone had been given.
bool is_accessed_whole(const BlockState& operand) {
  return operand.whole || std::ranges::all_of(operand.parts(), [&](const EvictionUnit& unit) {
           return operand.wants(unit) && !operand.overwrites(unit) &&
                  operand.writes(unit) == is_perhaps_written(operand);
         });
}

}  // namespace

void KnownOperations::learn(const Heap& heap, std::span<const MemoryAccess> list, const OperationInfo& info,
                            std::span<BlockState* const> operands, std::shared_ptr<const Versions::Form> form,
                            std::uint64_t placement) {
  if (!may_know(list, info) || operands.size() > KnownOperation::kMost) return;
  // The memory in which an address was found may hold others by now, which are not compared.
  if (std::ranges::any_of(list, [](const MemoryAccess& one) { return one.found != 0; })) return;
  if (known_.empty()) {
    known_.resize(std::size_t{1} << kBits);
    latest_.resize(std::size_t{1} << kBits);
  }
  const std::uint64_t key = key_of(list, info);
  if (std::exchange(latest_[place_of(key)], key) != key) return;
  const bool is_known_again = info.relaunch != nullptr;
  const bool follow_from_addresses =
      is_known_again ? form != nullptr &&
                           std::ranges::all_of(operands, [](const BlockState* one) { return is_accessed_whole(*one); })
                     : std::ranges::all_of(list, [&](const MemoryAccess& one) {
                         return one.bytes == 0 && heap.stays_meant(one.address);
                       });
  if (!follow_from_addresses) return;
  KnownOperation& one = known_[place_of(key)];
  if (one.has(operands) && one.is(list, info) && (!is_known_again || one.placement == placement)) return;
  one.id = ++newest_;
  one.kind = info.kind;
  one.name = info.name;
  one.operator_class = info.operator_class;
  one.follows = info.follows;
  one.same_as = KnownOperation::same_as_of(info);
  one.form = is_known_again ? std::move(form) : nullptr;
  one.placement = placement;
  one.count = static_cast<std::uint32_t>(list.size());
  one.operand_count = static_cast<std::uint32_t>(operands.size());
  std::ranges::copy(list, one.list.begin());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    one.operands[i] = operands[i];
    one.serials[i] = operands[i]->block->serial();
    one.may_write[i] = is_perhaps_written(*operands[i]);
  }
}

bool KnownOperation::has(std::span<BlockState* const> others) const {
  if (id == 0 || others.size() != operand_count) return false;
  for (std::size_t i = 0; i < operand_count; ++i) {
    if (operands[i] != others[i] || serials[i] != others[i]->block->serial() ||
        may_write[i] != is_perhaps_written(*others[i]))
      return false;
  }
  return true;
}

namespace {

void validate_form(const Heap& heap, const KnownOperation& known) {
  THERMOCLINE_CHECK(known.form->is_all && known.form->operands.size() == known.count,
                    "What is noted of an operation that comes again names each buffer.");
  for (std::size_t i = 0; i < known.count; ++i) {
    const Versions::Operand& operand = known.form->operands[i];
    const Buffer* const buffer = heap.find(known.list[i].address);
    THERMOCLINE_CHECK(buffer != nullptr && buffer->number() == operand.buffer && buffer->address() == operand.address &&
                          buffer->block().is_slab() != operand.owns_pages && known.list[i].bytes == operand.bytes,
                      "What is noted of an operation names the buffers that are there, as long as none comes or goes.");
  }
}

}  // namespace

void KnownOperations::validate(const Heap& heap, std::uint64_t placement) const {
  for (const KnownOperation& one : known_) {
    const auto is_there = [&](std::size_t i) {
      const Block* const block = one.operands[i]->block;
      return block != nullptr && block->serial() == one.serials[i];
    };
    std::size_t there = 0;
    while (there < one.operand_count && is_there(there)) ++there;
    if (one.id == 0 || there < one.operand_count) continue;
    if (one.form != nullptr && one.placement == placement) validate_form(heap, one);
    for (std::size_t i = 0; i < one.count; ++i) {
      const Block* const meant = heap.block_meant_by(one.list[i].address);
      const bool is_operand = std::ranges::any_of(
          one.all_operands(), [meant](const BlockState* operand) { return operand->block == meant; });
      THERMOCLINE_CHECK(is_operand, "An address means the block that it was found to mean, while that is there.");
    }
  }
}

}  // namespace thermocline
