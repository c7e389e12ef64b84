// SPDX-License-Identifier: Apache-2.0
// The buffers of a repeated iteration by name: the n-th that is allocated behind the operation at one place of it. From
// some time on a name has addresses of its own, to which each buffer of that name comes back: then pages can be given
// to addresses for good (aliasing.h). Only addresses are kept, never memory: a vacant block has no pages.
//
// Who is not there when he is expected costs nothing; who comes unexpected gets other addresses.
// Guarded by the engine's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "allocator/heap.h"

namespace thermocline {

class Berths {
 public:
  using Name = std::uint32_t;  // dense

  // From now on addresses are kept.
  void keep() { keeps_ = true; }
  bool keeps() const { return keeps_; }

  // Another operation arrives.
  void next() { number_ = 0; }
  // Another allocation, of `bytes`, behind the operation at `place`: a vacant block for it; null: there is none.
  Block* find(std::size_t place, Bytes bytes);
  // It needed a block, and got this one, found here or elsewhere; its name.
  std::optional<Name> occupied(std::size_t place, Bytes bytes, const Heap& heap, Block& block);
  // The block's buffer is about to be freed: true if its addresses are to be kept (Heap::vacate).
  bool vacated(const Block& block);

  std::optional<Name> name_of(const Block& block) const;
  // The block that has the name now, or is kept for it; null: none.
  const Block* block_of(Name name) const { return berths_[name].block; }

  // Nothing is known or kept any more: vacant blocks are dissolved.
  void clear(Heap& heap);

 private:
  struct Berth {
    Bytes bytes = 0;         // that were asked for
    Block* block = nullptr;  // null: somewhere else each time, or not yet
    bool vacant = false;
  };
  // The berth of the present allocation; null: none.
  const Berth* here(std::size_t place, Bytes bytes) const;

  std::vector<std::vector<Name>> places_;  // by place, by number; kNobody where none was needed
  std::vector<Berth> berths_;              // by name
  std::unordered_map<const Block*, Name> names_;
  static constexpr Name kNobody = ~Name{0};
  std::size_t number_ = 0;  // of allocations behind the last operation, this one included
  bool keeps_ = false;
  Bytes kept_bytes_ = 0;
};

}  // namespace thermocline
