// SPDX-License-Identifier: Apache-2.0
// Free chunks in order of size, and of offset where sizes are equal: the best fit. Each size below kExact has a bin of
// its own, and one word says which bins are not empty; all larger chunks share the last bin. Most sizes are small and
// few chunks have the same size, so a bin is a sorted vector, and an operation is a few comparisons without a tree's
// pointers and rotations.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

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
    const std::size_t at = behind(bin, chunk.size(), chunk.offset());
    bin.push_back(&chunk);
    Chunk** const all = bin.data();
    for (std::size_t i = bin.size() - 1; i > at; --i) all[i] = all[i - 1];
    all[at] = &chunk;
  }
  void remove(Chunk& chunk) {
    const unsigned index = bin_of(chunk.size());
    Bin& bin = bins_[index];
    Chunk** const all = bin.data();
    const std::size_t last = bin.size() - 1;
    for (std::size_t i = behind(bin, chunk.size(), chunk.offset()); i < last; ++i) all[i] = all[i + 1];
    bin.pop_back();
    if (last == 0) used_ &= ~(std::uint64_t{1} << index);
  }
  // The smallest chunk of at least `size`, which is not 0; among equals the lowest. Null: there is none.
  Chunk* fit(std::uint64_t size) const {
    const unsigned own = bin_of(size);
    const std::uint64_t fitting = used_ >> own << own;
    if (fitting == 0) return nullptr;
    const Bin& bin = bins_[std::countr_zero(fitting)];
    if (&bin != &bins_[kBins - 1]) [[likely]]
      return bin.data()[bin.size() - 1];
    const std::size_t end = behind(bin, size - 1, ~std::uint64_t{0});
    return end == 0 ? nullptr : bin.data()[end - 1];
  }
  // Calls visit(chunk) for the chunks of exactly that size, lowest first, until it returns false.
  template <class Visit>
  void each_of(std::uint64_t size, Visit visit) const {
    const Bin& bin = bins_[bin_of(size)];
    for (std::size_t i = behind(bin, size - 1, ~std::uint64_t{0}); i > 0 && bin[i - 1]->size() == size && visit(*bin[i - 1]);) --i;
  }
  // For all, smallest or largest first.
  template <class Visit>
  void each(Visit visit) const {
    for (const Bin& bin : bins_) std::for_each(bin.rbegin(), bin.rend(), [&](Chunk* chunk) { visit(*chunk); });
  }
  template <class Visit>
  void each_from_largest(Visit visit) const {
    for (unsigned index = kBins; index-- > 0;) {
      for (Chunk* const chunk : bins_[index]) {
        if (!visit(*chunk)) return;
      }
    }
  }
  bool has(const Chunk& chunk) const {
    const Bin& bin = bins_[bin_of(chunk.size())];
    return std::find(bin.begin(), bin.end(), &chunk) != bin.end();
  }
  // How many chunks there are; ~0 if one is in another's place, or a bit is wrong.
  std::size_t check() const {
    std::size_t count = 0;
    for (unsigned index = 0; index < kBins; ++index) {
      const Bin& bin = bins_[index];
      if (((used_ >> index & 1) == 0) != bin.empty()) return ~std::size_t{0};
      for (std::size_t i = 0; i < bin.size(); ++i) {
        if (bin_of(bin[i]->size()) != index) return ~std::size_t{0};
        if (i > 0 && !is_behind(*bin[i - 1], bin[i]->size(), bin[i]->offset())) return ~std::size_t{0};
      }
      count += bin.size();
    }
    return count;
  }

 private:
  using Bin = std::vector<Chunk*>;
  static constexpr unsigned kBins = unsigned{kExact};

  static unsigned bin_of(std::uint64_t size) { return static_cast<unsigned>(std::min(size, kExact)) - 1; }
  static bool is_behind(const Chunk& chunk, std::uint64_t size, std::uint64_t offset) {
    return chunk.size() != size ? chunk.size() > size : chunk.offset() > offset;
  }
  // How many chunks of the bin are larger, or as large and at a higher offset.
  static std::size_t behind(const Bin& bin, std::uint64_t size, std::uint64_t offset) {
    Chunk* const* const all = bin.data();
    std::size_t low = 0;
    for (std::size_t high = bin.size(); low < high;) {
      const std::size_t middle = (low + high) / 2;
      is_behind(*all[middle], size, offset) ? low = middle + 1 : high = middle;
    }
    return low;
  }

  std::uint64_t used_ = 0;
  Bin bins_[kBins];
};

}  // namespace thermocline
