// SPDX-License-Identifier: Apache-2.0
// Free chunks by size, in bins: a good fit in O(1). The structure is that of TLSF (Masmano et al., ECRTS 2004) with its
// two levels of bitmaps, but outside the memory that it manages.
//
// Each size below kExact has a bin of its own; above, each doubling is divided into kParts bins. A chunk that fits is
// among the first kTried chunks in the bin of the wanted size; or else any chunk of the next bin that is not empty will
// do, because all of them are larger. So a search reads two short lists, one word of the bitmap and one of the summary.
// Of the chunks that were looked at the lowest is taken, so that the upper end of memory empties (otherwise a recorded
// LSTM step needs 0.5 % of live bytes more). The chunk found is larger than needed by less than 1 / kParts of its size.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <boost/intrusive/list.hpp>

namespace thermocline {

struct SizeBinTag;
using SizeBinHook = boost::intrusive::list_base_hook<boost::intrusive::tag<SizeBinTag>,
                                                     boost::intrusive::link_mode<boost::intrusive::normal_link>>;

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
    bins_[bin].push_front(chunk);
    words_[bin / 64] |= std::uint64_t{1} << bin % 64;
    summary_ |= std::uint64_t{1} << bin / 64;
    ++size_;
  }
  void remove(Chunk& chunk) {
    const unsigned bin = bin_of(chunk.size());
    bins_[bin].erase(bins_[bin].iterator_to(chunk));
    --size_;
    if (!bins_[bin].empty()) return;
    words_[bin / 64] &= ~(std::uint64_t{1} << bin % 64);
    if (words_[bin / 64] == 0) summary_ &= ~(std::uint64_t{1} << bin / 64);
  }
  Chunk* fit(std::uint64_t size) {
    const unsigned own = bin_of(size);
    // There is no bin after the last one, so all of it is searched.
    if (Chunk* chunk = lowest(own, size, own == kBins - 1 ? ~0u : kTried); chunk != nullptr) return chunk;
    const unsigned bin = next_used(own + 1);
    return bin < kBins ? lowest(bin, size, kTried) : nullptr;
  }
  bool has(const Chunk& chunk) const {
    for (const Chunk& other : bins_[bin_of(chunk.size())]) {
      if (&other == &chunk) return true;
    }
    return false;
  }
  std::size_t size() const { return size_; }
  void clear() {
    for (auto& bin : bins_) bin.clear();
    words_ = {};
    summary_ = 0;
    size_ = 0;
  }

  bool valid() const {
    std::size_t count = 0;
    for (unsigned bin = 0; bin < kBins; ++bin) {
      const bool used = (words_[bin / 64] >> bin % 64 & 1) != 0;
      if (used == bins_[bin].empty()) return false;
      for (const Chunk& chunk : bins_[bin]) {
        if (bin_of(chunk.size()) != bin) return false;
        ++count;
      }
    }
    for (unsigned word = 0; word < kWords; ++word) {
      if ((words_[word] != 0) != ((summary_ >> word & 1) != 0)) return false;
    }
    return count == size_;
  }

 private:
  static constexpr unsigned kWords = (kBins + 63) / 64;
  static_assert(kWords <= 64, "One word sums up all words.");

  // Among the first `tried` chunks of a bin, the one with the lowest address that is large enough: this empties the
  // upper end of memory.
  Chunk* lowest(unsigned bin, std::uint64_t size, unsigned tried) {
    Chunk* found = nullptr;
    for (Chunk& chunk : bins_[bin]) {
      if (chunk.size() >= size && (found == nullptr || chunk.offset() < found->offset())) found = &chunk;
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
      const std::uint64_t rest = word + 1 < 64 ? summary_ >> (word + 1) << (word + 1) : 0;
      if (rest == 0) return kBins;
      word = static_cast<unsigned>(std::countr_zero(rest));
      bits = words_[word];
    }
    return word * 64 + static_cast<unsigned>(std::countr_zero(bits));
  }

  using Bin = boost::intrusive::list<Chunk, boost::intrusive::base_hook<SizeBinHook>,
                                     boost::intrusive::constant_time_size<false>>;
  std::array<Bin, kBins> bins_;
  std::array<std::uint64_t, kWords> words_{};
  std::uint64_t summary_ = 0;
  std::size_t size_ = 0;
};

}  // namespace thermocline
