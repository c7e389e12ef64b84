// SPDX-License-Identifier: Apache-2.0
// Remembers which blocks operations accessed. Programs repeat themselves: an operation that is given the same addresses
// as an earlier one of its kind has the same operands, unless one of them has been freed. So instead of looking them up
// again, the addresses are compared, and then the serials of the blocks.
//
// Only operations whose operands follow from the addresses alone are remembered: they name no ranges, and no address
// that may later mean another block (Heap::stays_meant). A serial identifies one allocation of a block, whose pages
// keep their addresses. So as long as all serials are the same, all operands are.
//
// Where contents may be recomputed, also operations that name whole buffers, and whose caller knows them again
// (RelaunchInfo::same_as). What is noted of them in Versions is remembered, too, which stays right while all buffers are
// where they were (`placement`).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "allocator/heap.h"
#include "driver/hash.h"
#include "offload/access.h"
#include "offload/operation_info.h"
#include "offload/recompute/versions.h"
#include "offload/relauncher.h"
#include "offload/residency/block_state.h"

namespace thermocline {

struct KnownOperation {
  // The most addresses of a remembered operation: most kernels get fewer. Longer lists are looked up each time.
  static constexpr std::size_t kMost = 8;

  std::uint64_t id = 0;  // a new number whenever this entry is reused; 0: unused
  std::uint64_t kind = 0;
  const char* name = nullptr;
  OperatorClass operator_class = OperatorClass::kOther;
  bool follows = false;
  std::uint32_t count = 0;  // of accesses
  std::uint32_t operand_count = 0;
  std::uint64_t same_as = 0;  // RelaunchInfo::same_as; 0: nothing is known about how it may run again
  // Only if `same_as` is not 0.
  std::shared_ptr<const Versions::Form> form;
  std::uint64_t placement = 0;  // when it was remembered
  std::array<MemoryAccess, kMost> list{};
  std::array<BlockState*, kMost> operands{};
  std::array<std::uint64_t, kMost> serials{};
  std::array<bool, kMost> may_write{};

  static std::uint64_t same_as_of(const OperationInfo& info) {
    return info.relaunch == nullptr ? 0 : info.relaunch->same_as;
  }
  bool is(std::span<const MemoryAccess> other, const OperationInfo& info) const {
    return kind == info.kind && count == other.size() && name == info.name && follows == info.follows &&
           operator_class == info.operator_class && same_as == same_as_of(info) &&
           std::memcmp(list.data(), other.data(), other.size_bytes()) == 0;
  }
  std::span<BlockState* const> all_operands() const { return {operands.data(), operand_count}; }
  // Whether `others` are the same allocations, to be used in the same way.
  bool has(std::span<BlockState* const> others) const;
};

class KnownOperations {
 public:
  // Whether the operation may be remembered: it has no property that is not compared.
  static bool may_know(std::span<const MemoryAccess> list, const OperationInfo& info) {
    const bool is_special = info.may_block || info.overwrites || info.reads_host_copy || info.may_fail_halfway ||
                            info.again || (info.relaunch != nullptr && info.relaunch->same_as == 0);
    return !is_special && !list.empty() && list.size() <= KnownOperation::kMost;
  }
  // Null: not known. The caller has to check whether the operands have been freed.
  const KnownOperation* find(std::span<const MemoryAccess> list, const OperationInfo& info) const {
    if (known_.empty() || !may_know(list, info)) return nullptr;
    const KnownOperation& one = known_.data()[place_of(key_of(list, info))];
    return one.is(list, info) ? &one : nullptr;
  }
  // Remembers the operation. `operands`: the distinct blocks that its accesses mean, as listed while it is
  // prepared. `form`: what was noted of it in Versions, with all buffers placed as `placement` says; null: not all of it
  // is known.
  void learn(const Heap& heap, std::span<const MemoryAccess> list, const OperationInfo& info,
             std::span<BlockState* const> operands, std::shared_ptr<const Versions::Form> form,
             std::uint64_t placement);

  // Looks up the operands that still exist again, and compares; also with `form` while all buffers are placed as then.
  void validate(const Heap& heap, std::uint64_t placement) const;

 private:
  // As many entries as a large network's step has kernels; one and a half megabytes.
  static constexpr unsigned kBits = 12;

  static std::uint64_t key_of(std::span<const MemoryAccess> list, const OperationInfo& info) {
    if (info.relaunch != nullptr) return info.relaunch->same_as;
    return ((info.kind ^ list.front().address.value) * kHashFactor) ^ list.back().address.value;
  }
  static std::size_t place_of(std::uint64_t key) { return hash_bits(key, kBits); }

  std::vector<KnownOperation> known_;  // empty until the first is learned
  // By entry: the key of the operation that came last. An operation is copied only when it comes for the second time.
  std::vector<std::uint64_t> latest_;
  std::uint64_t newest_ = 0;
};

}  // namespace thermocline
