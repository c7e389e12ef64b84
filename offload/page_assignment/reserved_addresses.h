// SPDX-License-Identifier: Apache-2.0
// Reserved addresses ("reserved") for the buffers of a repeated iteration. A buffer's name is the place where it is
// allocated: the n-th allocation after the operation at one index of the iteration. After keep() each name has
// addresses of its own, which every buffer of that name gets. Then physical pages can be assigned to addresses
// permanently (static page assignment). Only addresses are reserved, never memory: a vacant block has no pages.
//
// If a buffer is not allocated when expected, that costs nothing; an unexpected buffer gets other addresses. Guarded by
// the engine's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "allocator/heap.h"

namespace thermocline {

class ReservedAddresses {
 public:
  using Name = std::uint32_t;  // dense, from 0

  // From now on the addresses of freed buffers are reserved.
  void keep() { keeps_ = true; }
  bool keeps() const { return keeps_; }

  // Call it when another operation is submitted.
  void next() { number_ = 0; }
  // The vacant block for another allocation of `bytes` after the operation at index `place`; null: there is none.
  Block* find(std::size_t place, Bytes bytes);
  // The allocation needed a block and got this one, from find or elsewhere. Returns its name, if it has one.
  std::optional<Name> occupied(std::size_t place, Bytes bytes, const Heap& heap, Block& block);
  // The block's buffer is about to be freed: true if its addresses are to be reserved (Heap::vacate).
  bool vacated(const Block& block);

  std::optional<Name> name_of(const Block& block) const;
  // The block that has the name now, or is reserved for it; null: none.
  const Block* block_of(Name name) const { return reservations_[name].block; }

  // Forgets everything; vacant blocks are dissolved.
  void clear(Heap& heap);

 private:
  struct Reservation {
    Bytes bytes = 0;         // requested size
    Block* block = nullptr;  // null: not the same each time, or not known yet
    bool vacant = false;
  };
  // The entry for the present allocation; null: none.
  const Reservation* here(std::size_t place, Bytes bytes) const;

  std::vector<std::vector<Name>> places_;  // by operation index, by number; kNoIndex if no block was needed
  std::vector<Reservation> reservations_;  // by name
  std::unordered_map<const Block*, Name> names_;
  static constexpr Name kNoIndex = ~Name{0};
  std::size_t number_ = 0;  // of allocations since the last operation, including the present one
  bool keeps_ = false;
  Bytes kept_bytes_ = 0;
};

}  // namespace thermocline
