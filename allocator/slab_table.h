// SPDX-License-Identifier: Apache-2.0
// The buffers of a slab by the addresses where they begin. A slab is cut into windows, and each window has a slot: the
// first chunk in use that begins in it. The others there come behind it by the links between neighbors. Slabs of small
// buffers have narrow windows: at most eight chunks begin in one, mostly one or two. Slabs of larger buffers have wide
// ones, in each of which at most one begins. So a look-up needs no hash, and the table takes a 512th of a slab of small
// buffers in host memory, and a 4096th of a slab of larger ones, however small the buffers are.
//
// The last chunk before an address is found slot by slot.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "driver/check.h"
#include "driver/units.h"

namespace thermocline {

// Memory for tables: runs of words that are 0, which are used again. Invariant: the words of spare runs are 0.
class TableMemory {
 public:
  // Without memory std::bad_alloc.
  std::uint64_t* take(std::size_t words) {
    OfSize& all = by_words_[words];
    if (all.spare.empty()) {
      // Room for all, so that giving one back takes no memory.
      if (all.spare.capacity() <= all.made.size()) all.spare.reserve(2 * all.made.size() + 8);
      return all.made.emplace_back(std::make_unique<std::uint64_t[]>(words)).get();
    }
    std::uint64_t* const run = all.spare.back();
    all.spare.pop_back();
    return run;
  }
  void give(std::uint64_t* run, std::size_t words) { by_words_.find(words)->second.spare.push_back(run); }

  void validate() const {
    for (const auto& [words, all] : by_words_) {
      for (const std::uint64_t* run : all.spare) {
        // As bytes: the words may have been pointers.
        const auto bytes = std::as_bytes(std::span(run, words));
        THERMOCLINE_CHECK(std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; }),
                          "A table without a slab is empty.");
      }
    }
  }

 private:
  struct OfSize {
    std::vector<std::unique_ptr<std::uint64_t[]>> made;
    std::vector<std::uint64_t*> spare;
  };

  std::map<std::size_t, OfSize> by_words_;
};

enum class Windows : std::uint8_t { kNarrow, kWide };

// A chunk has address_, is_hole_ and right_: its neighbor at higher addresses, null for the last one of the slab.
//
// Invariant: a window's slot is the first of the chunks in use that begin in it, null if there is none. A table that was
// not opened has no window.
template <class Chunk>
class SlabTable {
 public:
  static constexpr Bytes window_bytes(Windows windows) { return Bytes{1} << shift_of(windows); }

  // For a slab that begins at `begin`. Without memory std::bad_alloc, and the table stays closed.
  void open(DeviceAddress begin, Bytes bytes, Windows windows, TableMemory& memory) {
    const std::uint64_t count = (bytes + window_bytes(windows) - 1) >> shift_of(windows);
    static_assert(sizeof(Chunk*) == sizeof(std::uint64_t));
    slots_ = reinterpret_cast<Chunk**>(memory.take(count));
    begin_ = begin.value;
    windows_ = static_cast<std::uint32_t>(count);
    shift_ = shift_of(windows);
  }
  // No chunk may be in it.
  void close(TableMemory& memory) {
    memory.give(reinterpret_cast<std::uint64_t*>(slots_), windows_);
    *this = {};
  }

  // The chunk in use that begins at the address, and its window; null: none does.
  Chunk* find(DeviceAddress address) const {
    std::uint64_t ignored = 0;
    return find(address, &ignored);
  }
  [[gnu::always_inline]] Chunk* find(DeviceAddress address, std::uint64_t* window) const {
    *window = window_of(address);
    if (*window >= windows_) return nullptr;
    Chunk* const first = slots_[*window];
    if (first == nullptr || first->address_ == address) return first;
    return find_behind(first, address);
  }
  // There must be none at its address. kWindows: as the table was opened.
  template <Windows kWindows>
  [[gnu::always_inline]] void put(Chunk* chunk) {
    Chunk*& first = slots_[window_of<kWindows>(chunk->address_)];
    if (kWindows == Windows::kWide || first == nullptr || chunk->address_ < first->address_) first = chunk;
  }
  // It must be there, and have its neighbors.
  template <Windows kWindows>
  [[gnu::always_inline]] void remove(const Chunk* chunk, std::uint64_t window) {
    Chunk*& first = slots_[window];
    if constexpr (kWindows == Windows::kWide) {
      first = nullptr;
    } else if (first == chunk) {
      first = next_in(window, *chunk);
    }
  }
  // The last chunk in use that begins at `address`, which is in the slab, or before it; null: none.
  Chunk* last_until(DeviceAddress address) const {
    for (std::uint64_t window = window_of(address);; --window) {
      // None in the window of the address itself, if all there begin behind it.
      Chunk* last = nullptr;
      for (Chunk* one = slots_[window]; one != nullptr && one->address_ <= address; one = next_in(window, *one))
        last = one;
      if (last != nullptr || window == 0) return last;
    }
  }

  void validate() const {
    for (std::uint64_t window = 0; window < windows_; ++window) {
      const Chunk* const first = slots_[window];
      THERMOCLINE_CHECK(first == nullptr || (!first->is_hole_ && window_of(first->address_) == window),
                        "A window's slot is a chunk in use that begins in it.");
    }
  }

 private:
  static constexpr std::uint32_t shift_of(Windows windows) { return windows == Windows::kNarrow ? 12 : 15; }
  std::uint64_t window_of(DeviceAddress address) const { return (address.value - begin_) >> shift_; }
  template <Windows kWindows>
  std::uint64_t window_of(DeviceAddress address) const {
    return (address.value - begin_) >> shift_of(kWindows);
  }
  // Among the chunks behind the first one of a window.
  static Chunk* find_behind(Chunk* first, DeviceAddress address) {
    Chunk* one = first;
    while (one != nullptr && one->address_ < address) one = one->right_;
    return one != nullptr && one->address_ == address && !one->is_hole_ ? one : nullptr;
  }
  // The next chunk in use in the window.
  Chunk* next_in(std::uint64_t window, const Chunk& chunk) const {
    for (Chunk* one = chunk.right_; one != nullptr && window_of(one->address_) == window; one = one->right_) {
      if (!one->is_hole_) return one;
    }
    return nullptr;
  }

  Chunk** slots_ = nullptr;
  std::uint64_t begin_ = 0;
  std::uint32_t windows_ = 0;
  std::uint32_t shift_ = 0;
};

}  // namespace thermocline
