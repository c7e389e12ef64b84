// SPDX-License-Identifier: Apache-2.0
// Free chunks in order of size, and of offset where sizes are equal: the best fit. Each size below kExact has a bin of
// its own, and one word says which bins are not empty; all larger chunks share the last bin. Most sizes are small and
// few chunks have the same size, so a bin is a sorted array, and an operation is a few comparisons without a tree's
// rotations.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace thermocline {

// Invariants: bin n has the chunks of size n + 1, and the last bin those that are larger, too; a bin is in falling order
// of size and offset, so that its best is at its end; bit n of the word is set exactly when bin n is not empty.
template <class Chunk>
class SizeOrder {
 public:
  static constexpr std::uint64_t kExact = 64;

  // A chunk's size and offset must not change while it is here.
  void put(Chunk& chunk) {
    const unsigned index = bin_of(chunk.size());
    Bin& bin = bins_[index];
    used_ |= std::uint64_t{1} << index;
    if (bin.size == bin.room) [[unlikely]]
      bin.grow();
    Chunk** const all = bin.all.get();
    std::size_t at = bin.size++;
    if (at > kShort) return bin.put_in_long(chunk);
    for (; at > 0 && !is_behind(*all[at - 1], chunk.size(), chunk.offset()); --at) all[at] = all[at - 1];
    all[at] = &chunk;
  }
  void remove(Chunk& chunk) {
    const unsigned index = bin_of(chunk.size());
    Bin& bin = bins_[index];
    Chunk** const all = bin.all.get();
    std::size_t at = --bin.size;
    if (at > kShort) return bin.remove_from_long(chunk);
    for (Chunk* next = all[at]; next != &chunk;) std::swap(next, all[--at]);
    if (bin.size == 0) used_ &= ~(std::uint64_t{1} << index);
  }
  // The smallest chunk of at least `size`, which is not 0; among equals the lowest. Null: there is none.
  Chunk* fit(std::uint64_t size) const {
    const unsigned own = bin_of(size);
    const std::uint64_t fitting = used_ >> own << own;
    if (fitting == 0) return nullptr;
    const Bin& bin = bins_[std::countr_zero(fitting)];
    if (&bin != &bins_[kBins - 1]) [[likely]]
      return bin.all[bin.size - 1];
    const std::size_t end = bin.behind(bin.size, size - 1, ~std::uint64_t{0});
    return end == 0 ? nullptr : bin.all[end - 1];
  }
  // Calls visit(chunk) for the chunks of exactly that size, lowest first, until it returns false.
  template <class Visit>
  void each_of(std::uint64_t size, Visit visit) const {
    const Bin& bin = bins_[bin_of(size)];
    std::size_t end = bin.behind(bin.size, size - 1, ~std::uint64_t{0});
    while (end > 0 && bin.all[end - 1]->size() == size && visit(*bin.all[end - 1])) --end;
  }
  // For all, smallest or largest first.
  template <class Visit>
  void each(Visit visit) const {
    for (const Bin& bin : bins_) {
      for (std::size_t i = bin.size; i-- > 0;) visit(*bin.all[i]);
    }
  }
  template <class Visit>
  void each_from_largest(Visit visit) const {
    for (unsigned index = kBins; index-- > 0;) {
      for (Chunk* const chunk : bins_[index].chunks()) {
        if (!visit(*chunk)) return;
      }
    }
  }
  bool has(const Chunk& chunk) const {
    return std::ranges::find(bins_[bin_of(chunk.size())].chunks(), &chunk) !=
           bins_[bin_of(chunk.size())].chunks().end();
  }
  // How many chunks there are; ~0 if one is in another's place, or a bit is wrong.
  std::size_t check() const {
    std::size_t count = 0;
    for (unsigned index = 0; index < kBins; ++index) {
      const std::span<Chunk* const> chunks = bins_[index].chunks();
      if (((used_ >> index & 1) == 0) != chunks.empty()) return ~std::size_t{0};
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        if (bin_of(chunks[i]->size()) != index) return ~std::size_t{0};
        if (i > 0 && !is_behind(*chunks[i - 1], chunks[i]->size(), chunks[i]->offset())) return ~std::size_t{0};
      }
      count += chunks.size();
    }
    return count;
  }

 private:
  static constexpr unsigned kBins = unsigned{kExact};
  // Up to so many are looked at one after another, from the end.
  static constexpr std::size_t kShort = 24;

  static unsigned bin_of(std::uint64_t size) { return static_cast<unsigned>(std::min(size, kExact)) - 1; }
  static bool is_behind(const Chunk& chunk, std::uint64_t size, std::uint64_t offset) {
    return chunk.size() != size ? chunk.size() > size : chunk.offset() > offset;
  }
  // Not std::vector: its pointers cost a third of an operation.
  struct Bin {
    std::span<Chunk* const> chunks() const { return {all.get(), size}; }
    // How many of the first `count` are larger, or as large and at a higher offset.
    std::size_t behind(std::size_t count, std::uint64_t wanted, std::uint64_t offset) const {
      return static_cast<std::size_t>(
          std::partition_point(all.get(), all.get() + count,
                               [&](const Chunk* chunk) { return is_behind(*chunk, wanted, offset); }) -
          all.get());
    }
    // The size is already that of afterwards.
    [[gnu::noinline]] void put_in_long(Chunk& chunk) {
      Chunk** const at = all.get() + behind(size - 1, chunk.size(), chunk.offset());
      std::copy_backward(at, all.get() + size - 1, all.get() + size);
      *at = &chunk;
    }
    [[gnu::noinline]] void remove_from_long(Chunk& chunk) {
      Chunk** const at = all.get() + behind(size + 1, chunk.size(), chunk.offset());
      std::copy(at + 1, all.get() + size + 1, at);
    }
    [[gnu::noinline]] void grow() {
      auto more = std::make_unique<Chunk*[]>(2 * room + 4);
      std::copy_n(all.get(), size, more.get());
      all = std::move(more);
      room = 2 * room + 4;
    }

    std::unique_ptr<Chunk*[]> all;
    std::size_t size = 0, room = 0;
  };

  std::uint64_t used_ = 0;
  Bin bins_[kBins];
};

}  // namespace thermocline
