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
  Chunk* previous_in_bin = nullptr;
  unsigned bin = 0;  // the bin that contains it
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
    chunk.previous_in_bin = nullptr;
    chunk.next_in_bin = next;
    first_ = &chunk;
    if (next == nullptr) return true;
    next->previous_in_bin = &chunk;
    return false;
  }
  void remove(Chunk& chunk) {
    if (chunk.next_in_bin != nullptr) chunk.next_in_bin->previous_in_bin = chunk.previous_in_bin;
    (chunk.previous_in_bin != nullptr ? chunk.previous_in_bin->next_in_bin : first_) = chunk.next_in_bin;
  }
  bool has(const Chunk& chunk) const {
    for (const Chunk* one = first_; one != nullptr; one = one->next_in_bin) {
      if (one == &chunk) return true;
    }
    return false;
  }

 private:
  Chunk* first_ = nullptr;
};

// Invariant: bit n of the word is set exactly when bin n is not empty. Bin n has the chunks of size n + 1, and the last
// bin those that are larger, too.
template <class Chunk>
class ExactBins {
 public:
  static constexpr std::uint64_t kLargest = 64;

  void put(Chunk& chunk) {
    const unsigned bin = bin_of(chunk.size());
    chunk.bin = bin;
    if (bins_[bin].put(chunk)) used_ |= std::uint64_t{1} << bin;
  }
  void remove(Chunk& chunk) {
    const unsigned bin = chunk.bin;
    bins_[bin].remove(chunk);
    if (bins_[bin].empty()) used_ &= ~(std::uint64_t{1} << bin);
  }
  // The smallest chunk of at least `size`, from 1 to kLargest; among equals the one that was put in last.
  Chunk* fit(std::uint64_t size) const {
    const std::uint64_t fitting = used_ >> (size - 1) << (size - 1);
    return fitting == 0 ? nullptr : bins_[static_cast<unsigned>(std::countr_zero(fitting))].first();
  }
  bool has(const Chunk& chunk) const { return bins_[bin_of(chunk.size())].has(chunk); }
  // How many chunks there are; ~0 if a bin has a chunk of another size, or its bit is wrong.
  std::size_t check() const {
    std::size_t count = 0;
    for (unsigned bin = 0; bin < kLargest; ++bin) {
      if (((used_ >> bin & 1) == 0) != bins_[bin].empty()) return ~std::size_t{0};
      for (const Chunk* chunk = bins_[bin].first(); chunk != nullptr; chunk = bins_[bin].behind(*chunk)) {
        if (bin_of(chunk->size()) != bin || chunk->bin != bin) return ~std::size_t{0};
        ++count;
      }
    }
    return count;
  }

 private:
  static constexpr unsigned bin_of(std::uint64_t size) {
    return static_cast<unsigned>(size < kLargest ? size : kLargest) - 1;
  }

  std::uint64_t used_ = 0;
  // Not std::array: its checks cost as much as the rest.
  BinList<Chunk> bins_[kLargest];
};

// Invariant: a bin's bit is set exactly when the bin is not empty; a word's bit in the summary when the word is not 0.
template <class Chunk>
class SizeBins {
 public:
  static constexpr std::uint64_t kExact = 64;
  static constexpr unsigned kParts = 32;
  static constexpr unsigned kTried = 12;
  // Larger sizes share the last bin.
  static constexpr unsigned kDoublings = 30;
  static constexpr unsigned kBins = unsigned{kExact} + kDoublings * kParts;

  static constexpr unsigned bin_of(std::uint64_t size) {
    if (size < kExact) return static_cast<unsigned>(size);
    const unsigned doubling = static_cast<unsigned>(std::bit_width(size)) - 1;
    constexpr unsigned kFirst = std::bit_width(kExact) - 1;
    if (doubling >= kFirst + kDoublings) return kBins - 1;
    const unsigned part = static_cast<unsigned>(size >> (doubling - 5)) % kParts;
    return static_cast<unsigned>(kExact) + (doubling - kFirst) * kParts + part;
  }
  static_assert(kParts == 1u << 5, "A part is told by five bits.");

  void put(Chunk& chunk) {
    const unsigned bin = bin_of(chunk.size());
    chunk.bin = bin;
    if (!bins_[bin].put(chunk)) return;
    words_[bin / 64] |= std::uint64_t{1} << bin % 64;
    summary_ |= std::uint64_t{1} << bin / 64;
  }
  void remove(Chunk& chunk) {
    const unsigned bin = chunk.bin;
    bins_[bin].remove(chunk);
    if (!bins_[bin].empty()) return;
    words_[bin / 64] &= ~(std::uint64_t{1} << bin % 64);
    if (words_[bin / 64] == 0) summary_ &= ~(std::uint64_t{1} << bin / 64);
  }
  [[gnu::always_inline]] Chunk* fit(std::uint64_t size) const {
    const unsigned own = bin_of(size);
    // There is no bin after the last one, so all of it is searched.
    if (Chunk* chunk = lowest(own, size, own == kBins - 1 ? ~0u : kTried); chunk != nullptr) return chunk;
    const unsigned bin = next_used(own + 1);
    return bin < kBins ? lowest(bin, size, kTried) : nullptr;
  }
  bool has(const Chunk& chunk) const { return bins_[bin_of(chunk.size())].has(chunk); }
  // How many chunks there are; ~0 if a bin has a chunk of another size, or its bit is wrong.
  std::size_t check() const {
    std::size_t count = 0;
    for (unsigned bin = 0; bin < kBins; ++bin) {
      if (((words_[bin / 64] >> bin % 64 & 1) == 0) != bins_[bin].empty()) return ~std::size_t{0};
      for (const Chunk* chunk = bins_[bin].first(); chunk != nullptr; chunk = bins_[bin].behind(*chunk)) {
        if (bin_of(chunk->size()) != bin || chunk->bin != bin) return ~std::size_t{0};
        ++count;
      }
    }
    for (unsigned word = 0; word < kWords; ++word) {
      if ((words_[word] != 0) != ((summary_ >> word & 1) != 0)) return ~std::size_t{0};
    }
    return count;
  }

 private:
  static constexpr unsigned kWords = (kBins + 63) / 64;
  static_assert(kWords < 64, "One word sums up all words.");

  // Among the first `tried` chunks of a bin, the one with the lowest address that is large enough: this empties the
  // upper end of memory.
  [[gnu::always_inline]] Chunk* lowest(unsigned bin, std::uint64_t size, unsigned tried) const {
    Chunk* found = nullptr;
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
