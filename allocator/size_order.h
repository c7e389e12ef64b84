// SPDX-License-Identifier: Apache-2.0
// Free chunks in order of size, and of offset where sizes are equal: the best fit. Each size below kExact has a bin of
// its own, and one word says which bins are not empty; all larger chunks share the last bin. Most sizes are small and
// few chunks have the same size, so a bin is a sorted array, and an operation is a few comparisons without a tree's
// rotations. A bin of many chunks is a tree. Nothing is allocated.
#pragma once

#include <algorithm>
#include <bit>
#include <boost/intrusive/set.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace thermocline {

// The link of chunks that may be in a SizeOrder.
using SizeHook = boost::intrusive::set_base_hook<boost::intrusive::optimize_size<true>>;

// Invariants: bin n has the chunks of size n + 1, and the last bin those that are larger, too; a bin has at most kFew
// chunks in `few`, in falling order of size and offset, so that its best is at its end, or all of them, more than half
// as many, in `many`; bit n of the word is set exactly when bin n is not empty.
template <class Chunk>
class SizeOrder {
 public:
  static constexpr std::uint64_t kExact = 64;

  // A chunk's size and offset must not change while it is here. Both are less than 2^32.
  void put(Chunk& chunk) {
    const unsigned index = bin_of(chunk.size());
    Bin& bin = bins_[index];
    used_ |= std::uint64_t{1} << index;
    if (bin.size >= kFew || !bin.many.empty()) [[unlikely]]
      return bin.put_in_many(chunk);
    Chunk** const place = bin.place_of(chunk.size(), chunk.offset());
    std::move_backward(place, bin.end_of_few(), bin.end_of_few() + 1);
    *place = &chunk;
    ++bin.size;
  }
  void remove(Chunk& chunk) {
    const unsigned index = bin_of(chunk.size());
    Bin& bin = bins_[index];
    if (!bin.many.empty()) [[unlikely]]
      return bin.remove_from_many(chunk);
    Chunk** const last = bin.end_of_few() - 1;
    if (*last != &chunk) {
      Chunk** const place = bin.place_of(chunk.size(), chunk.offset());
      std::move(place + 1, last + 1, place);
    }
    --bin.size;
    if (bin.size == 0) used_ &= ~(std::uint64_t{1} << index);
  }
  void clear() {
    for (Bin& bin : bins_) {
      bin.many.clear();
      bin.size = 0;
    }
    used_ = 0;
  }
  // The smallest chunk of at least `size`, which is not 0; among equals the lowest. Null: there is none.
  Chunk* fit(std::uint64_t size) const {
    const unsigned own = bin_of(size);
    const std::uint64_t fitting = used_ >> own << own;
    if (fitting == 0) return nullptr;
    const Bin& bin = bins_[std::countr_zero(fitting)];
    if (&bin != &bins_[kBins - 1] && bin.many.empty()) [[likely]]
      return bin.few[bin.size - 1];
    return bin.fit(size);
  }
  // Calls visit(chunk) for the chunks of exactly that size, lowest first, until it returns false.
  template <class Visit>
  void each_of(std::uint64_t size, Visit visit) const {
    bins_[bin_of(size)].each(
        [&](Chunk& chunk) { return chunk.size() < size || (chunk.size() == size && visit(chunk)); }, size);
  }
  // For all, smallest or largest first.
  template <class Visit>
  void each(Visit visit) const {
    for (std::uint64_t used = used_; used != 0; used &= used - 1) {
      bins_[std::countr_zero(used)].each([&](Chunk& chunk) {
        visit(chunk);
        return true;
      });
    }
  }
  template <class Visit>
  void each_from_largest(Visit visit) const {
    for (std::uint64_t used = used_; used != 0;) {
      const int index = kBins - 1 - std::countl_zero(used);
      used ^= std::uint64_t{1} << index;
      const Bin& bin = bins_[index];
      for (auto it = bin.many.rbegin(); it != bin.many.rend(); ++it) {
        if (!visit(as_chunk(*it))) return;
      }
      for (std::size_t i = 0; bin.many.empty() && i < bin.size; ++i) {
        if (!visit(*bin.few[i])) return;
      }
    }
  }
  bool has(const Chunk& chunk) const {
    const Bin& bin = bins_[bin_of(chunk.size())];
    if (bin.many.empty()) return std::find(bin.few, bin.few + bin.size, &chunk) != bin.few + bin.size;
    const auto found = bin.many.find(key_of(chunk.size(), chunk.offset()));
    return found != bin.many.end() && &*found == &chunk;
  }
  // How many chunks there are; ~0 if one is in another's place, or a bit is wrong.
  std::size_t check() const {
    std::size_t count = 0;
    for (unsigned index = 0; index < kBins; ++index) {
      const Bin& bin = bins_[index];
      if (((used_ >> index & 1) == 0) != (bin.size == 0)) return ~std::size_t{0};
      if (bin.many.empty() ? bin.size > kFew : bin.size <= kFew / 2) return ~std::size_t{0};
      const Chunk* before = nullptr;
      std::size_t in_order = 0;
      bin.each([&](Chunk& chunk) {
        const bool is_right =
            bin_of(chunk.size()) == index && (before == nullptr || is_behind(chunk, before->size(), before->offset()));
        before = &chunk;
        in_order += is_right ? 1 : 0;
        return true;
      });
      if (in_order != bin.size) return ~std::size_t{0};
      count += bin.size;
    }
    return count;
  }

 private:
  static constexpr unsigned kBins = unsigned{kExact};
  static constexpr std::size_t kFew = 24;
  // Offsets may be any: those of host memory are addresses in units of 4 KiB.
  using Key = std::pair<std::uint64_t, std::uint64_t>;
  static Key key_of(std::uint64_t size, std::uint64_t offset) { return {size, offset}; }
  struct KeyOf {
    using type = Key;
    type operator()(const Chunk& chunk) const { return key_of(chunk.size(), chunk.offset()); }
  };
  using Many =
      boost::intrusive::set<Chunk, boost::intrusive::key_of_value<KeyOf>, boost::intrusive::base_hook<SizeHook>,
                            boost::intrusive::constant_time_size<false>>;

  static unsigned bin_of(std::uint64_t size) { return static_cast<unsigned>(std::min(size, kExact)) - 1; }
  static bool is_behind(const Chunk& chunk, std::uint64_t size, std::uint64_t offset) {
    return chunk.size() != size ? chunk.size() > size : chunk.offset() > offset;
  }
  // The owner of a bin may change its chunks, also where it sees the bin as const.
  static Chunk& as_chunk(const Chunk& chunk) { return const_cast<Chunk&>(chunk); }

  struct Bin {
    Chunk** end_of_few() { return few + size; }
    // Behind those of `few` that are behind such a chunk.
    Chunk** place_of(std::uint64_t chunk_size, std::uint64_t offset) {
      return std::partition_point(few, end_of_few(),
                                  [=](const Chunk* one) { return is_behind(*one, chunk_size, offset); });
    }
    // The lowest of the smallest that are no smaller; null: none.
    Chunk* fit(std::uint64_t wanted) const {
      Chunk* found = nullptr;
      each(
          [&](Chunk& chunk) {
            if (chunk.size() >= wanted) found = &chunk;
            return found == nullptr;
          },
          wanted);
      return found;
    }
    // Smallest first, until visit(chunk) returns false; from a tree those of `least` or more.
    template <class Visit>
    void each(Visit visit, std::uint64_t least = 0) const {
      for (auto it = many.lower_bound(key_of(least, 0)); it != many.end(); ++it) {
        if (!visit(as_chunk(*it))) return;
      }
      for (std::size_t i = many.empty() ? size : 0; i-- > 0;) {
        if (!visit(*few[i])) return;
      }
    }
    [[gnu::noinline]] void put_in_many(Chunk& chunk) {
      if (many.empty()) {
        for (std::size_t i = 0; i < size; ++i) many.insert(*few[i]);
      }
      many.insert(chunk);
      ++size;
    }
    [[gnu::noinline]] void remove_from_many(Chunk& chunk) {
      many.erase(many.iterator_to(chunk));
      if (--size > kFew / 2) return;
      std::size_t i = size;
      for (Chunk& each : many) few[--i] = &each;
      many.clear();
    }

    Chunk* few[kFew] = {};
    std::size_t size = 0;
    Many many;
  };

  std::uint64_t used_ = 0;
  Bin bins_[kBins];
};

}  // namespace thermocline
