// SPDX-License-Identifier: Apache-2.0
// Free chunks by size, in bins: a fit in O(1). A bin is a list through the chunks; a bitmap says which bins are not
// empty.
//
// SizeBins is for any sizes. The structure is that of TLSF (Masmano et al., ECRTS 2004) with its two levels of bitmaps,
// but outside the memory that it manages: each size below kExact has a bin of its own; above, each doubling is divided
// into kParts bins. A chunk that fits is among the first kTried chunks in the bin of the wanted size; or else any chunk
// of the next bin that is not empty will do, because all of them are larger. The lowest of the examined chunks is
// taken, so that the upper end of memory empties. The chunk found is larger than needed by less than
// 1 / kParts of its size.
//
// ExactBins is for small sizes: a bin for each, and one word that says which are not empty.
//
// That a bin is empty is noted only when a fit is searched there: a chunk leaves its bin by its links alone, without
// a look at the bin or its bit. A chunk that grows or shrinks within the sizes of its bin stays where it is.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace thermocline {

// A chunk derives from this or has these members, and it has size() and, for SizeBins, offset().
template <class Chunk>
struct BinHook {  // NOLINT(bugprone-crtp-constructor-accessibility): links and nothing else
  Chunk* next_in_bin = nullptr;
  Chunk** link_in_bin = nullptr;  // what points to it: the bin, or next_in_bin of the chunk before it
  unsigned bin = 0;               // the bin that contains it
};

template <class Chunk>
class BinList {
 public:
  Chunk* first() const { return first_; }
  bool empty() const { return first_ == nullptr; }
  static Chunk* behind(const Chunk& chunk) { return chunk.next_in_bin; }
  // True: the list was empty.
  bool put(Chunk& chunk) {
    Chunk* const next = first_;
    chunk.next_in_bin = next;
    chunk.link_in_bin = &first_;
    first_ = &chunk;
    if (next == nullptr) return true;
    next->link_in_bin = &chunk.next_in_bin;
    return false;
  }
  // From the list that it is in.
  static void remove(Chunk& chunk) {
    Chunk* const next = chunk.next_in_bin;
    *chunk.link_in_bin = next;
    if (next != nullptr) next->link_in_bin = chunk.link_in_bin;
  }
  bool has(const Chunk& chunk) const {
    for (const Chunk* one = first_; one != nullptr; one = one->next_in_bin) {
      if (one == &chunk) return true;
    }
    return false;
  }
  // How many chunks there are; ~0 if one is not of this bin, or is linked wrongly.
  template <class BinOf>
  std::size_t check(unsigned bin, BinOf bin_of) const {
    std::size_t count = 0;
    Chunk* const* link = &first_;
    for (const Chunk* chunk = first_; chunk != nullptr; chunk = chunk->next_in_bin) {
      if (chunk->link_in_bin != link || chunk->bin != bin || bin_of(chunk->size()) != bin) return ~std::size_t{0};
      link = &chunk->next_in_bin;
      ++count;
    }
    return count;
  }

 private:
  Chunk* first_ = nullptr;
};

// Invariant: bit n of the word is set if bin n is not empty. Bin n has the chunks of size n + 1, and the last bin those
// that are larger, too.
template <class Chunk>
class ExactBins {
 public:
  static constexpr std::uint64_t kLargest = 64;

  void put(Chunk& chunk) { put_in(bin_of(chunk.size()), chunk); }
  static void remove(Chunk& chunk) { BinList<Chunk>::remove(chunk); }
  // Its size has changed while it was here.
  void resized(Chunk& chunk) {
    const unsigned bin = bin_of(chunk.size());
    if (bin == chunk.bin) return;
    remove(chunk);
    put_in(bin, chunk);
  }
  // The smallest chunk of at least `size`, from 1 to kLargest; among equals the one that came there last.
  Chunk* fit(std::uint64_t size) {
    for (std::uint64_t fitting = used_ >> (size - 1) << (size - 1); fitting != 0; fitting &= fitting - 1) {
      Chunk* const first = bins_[static_cast<unsigned>(std::countr_zero(fitting))].first();
      if (first != nullptr) [[likely]]
        return first;
      used_ &= ~(fitting & -fitting);
    }
    return nullptr;
  }
  bool has(const Chunk& chunk) const { return bins_[bin_of(chunk.size())].has(chunk); }
  // How many chunks there are; ~0 if a bin has a chunk of another size, or its bit is missing.
  std::size_t check() const {
    std::size_t count = 0;
    for (unsigned bin = 0; bin < kLargest; ++bin) {
      const std::size_t in_bin = bins_[bin].check(bin, bin_of);
      if (in_bin == ~std::size_t{0} || (in_bin != 0 && (used_ >> bin & 1) == 0)) return ~std::size_t{0};
      count += in_bin;
    }
    return count;
  }

 private:
  static constexpr unsigned bin_of(std::uint64_t size) {
    return static_cast<unsigned>(size < kLargest ? size : kLargest) - 1;
  }
  void put_in(unsigned bin, Chunk& chunk) {
    chunk.bin = bin;
    if (bins_[bin].put(chunk)) used_ |= std::uint64_t{1} << bin;
  }

  std::uint64_t used_ = 0;
  // Not std::array: its checks cost as much as the rest.
  BinList<Chunk> bins_[kLargest];
};

// Invariant: a bin's bit is set if the bin is not empty; a word's bit in the summary exactly when the word is not 0.
template <class Chunk>
class SizeBins {
 public:
  static constexpr std::uint64_t kExact = 64;
  static constexpr unsigned kParts = 32;
  static constexpr unsigned kTried = 12;
  static constexpr unsigned kDoublings = 58;
  static constexpr unsigned kBins = unsigned{kExact} + kDoublings * kParts;

  // The five bits behind the first one of the size, and how many bits follow these: 0 for sizes that have bins of their own.
  static constexpr unsigned bin_of(std::uint64_t size) {
    const unsigned doubling = static_cast<unsigned>(std::bit_width(size | kParts)) - 1;
    const unsigned behind = doubling - kPartBits;
    return behind * kParts + static_cast<unsigned>(size >> behind);
  }

  void put(Chunk& chunk) { put_in(bin_of(chunk.size()), chunk); }
  static void remove(Chunk& chunk) { BinList<Chunk>::remove(chunk); }
  // Its size, or its place, has changed while it was here.
  void resized(Chunk& chunk) {
    const unsigned bin = bin_of(chunk.size());
    if (bin == chunk.bin) return;
    remove(chunk);
    put_in(bin, chunk);
  }
  [[gnu::always_inline]] Chunk* fit(std::uint64_t size) {
    const unsigned own = bin_of(size);
    if (Chunk* chunk = lowest(own, size); chunk != nullptr) return chunk;
    for (unsigned bin = next_used(own + 1); bin < kBins; bin = next_used(bin + 1)) {
      if (!bins_[bin].empty()) [[likely]]
        return lowest(bin, size);
      words_[bin / 64] &= ~(std::uint64_t{1} << bin % 64);
      if (words_[bin / 64] == 0) summary_ &= ~(std::uint64_t{1} << bin / 64);
    }
    return nullptr;
  }
  bool has(const Chunk& chunk) const { return bins_[bin_of(chunk.size())].has(chunk); }
  // How many chunks there are; ~0 if a bin has a chunk of another size, or its bit is missing.
  std::size_t check() const {
    std::size_t count = 0;
    for (unsigned bin = 0; bin < kBins; ++bin) {
      const std::size_t in_bin = bins_[bin].check(bin, bin_of);
      if (in_bin == ~std::size_t{0} || (in_bin != 0 && (words_[bin / 64] >> bin % 64 & 1) == 0)) return ~std::size_t{0};
      count += in_bin;
    }
    for (unsigned word = 0; word < kWords; ++word) {
      if ((words_[word] != 0) != ((summary_ >> word & 1) != 0)) return ~std::size_t{0};
    }
    return count;
  }

 private:
  static constexpr unsigned kPartBits = 5;
  static_assert(kParts == 1u << kPartBits && kExact == 2 * std::uint64_t{kParts}, "All sizes have bins by one rule.");
  static constexpr unsigned kWords = (kBins + 63) / 64;
  static_assert(kWords < 64, "One word sums up all words.");

  void put_in(unsigned bin, Chunk& chunk) {
    chunk.bin = bin;
    if (!bins_[bin].put(chunk)) return;
    words_[bin / 64] |= std::uint64_t{1} << bin % 64;
    summary_ |= std::uint64_t{1} << bin / 64;
  }
  // Among the first `tried` chunks of a bin, the one with the lowest address that is large enough: this empties the
  // upper end of memory.
  [[gnu::always_inline]] Chunk* lowest(unsigned bin, std::uint64_t size) const {
    Chunk* found = nullptr;
    unsigned tried = kTried;
    for (Chunk* chunk = bins_[bin].first(); chunk != nullptr; chunk = bins_[bin].behind(*chunk)) {
      if (chunk->size() >= size && (found == nullptr || chunk->offset() < found->offset())) found = chunk;
      if (--tried == 0) break;
    }
    return found;
  }
  // The first bin at or after `bin` that is not empty, or kBins.
  unsigned next_used(unsigned bin) const {
    if (bin >= kBins) return kBins;
    unsigned word = bin / 64;
    std::uint64_t bits = words_[word] >> bin % 64 << bin % 64;
    if (bits == 0) {
      const std::uint64_t rest = summary_ >> (word + 1) << (word + 1);
      if (rest == 0) return kBins;
      word = static_cast<unsigned>(std::countr_zero(rest));
      bits = words_[word];
    }
    return word * 64 + static_cast<unsigned>(std::countr_zero(bits));
  }

  // Not std::array: its checks cost as much as the rest.
  BinList<Chunk> bins_[kBins];
  std::uint64_t words_[kWords] = {};
  std::uint64_t summary_ = 0;
};

}  // namespace thermocline
