// SPDX-License-Identifier: Apache-2.0
// Best fit with coalescing over abstract offsets: the algorithm that TensorFlow and XLA use for device memory
// (openxla/xla xla/tsl/framework/bfc_allocator.h). In place of power-of-two bins, this one has exact best fit, from
// chunks in order (size_order.h). It knows nothing of memory: a range is cut into chunks, and each chunk carries a tag
// that the owner defines.
//
// The tag determines on which shelf (free list) a free chunk lies, which neighbors may be merged, and the tag of the
// merged chunk. Shelves are searched separately.
//
//   struct Tag {
//     static constexpr unsigned kOrdered, kShelves; // those from kOrdered on are in no order, and never searched for a fit
//     unsigned shelf() const;                       // of a free chunk; must not change while it is free
//     bool merges_with(const Tag& right) const;     // both free and adjacent: merge them?
//     void join(const Tag& right);                  // becomes the tag of the merged chunk
//     void clear();                                 // back to the state of a new one
//   };
//
// Ranges may lie anywhere and are never merged with one another. Offsets and sizes are in granules, a unit that the
// caller chooses.
#pragma once

#include <cstdint>
#include <utility>

#include <boost/intrusive/list.hpp>

#include "allocator/object_pool.h"
#include "allocator/size_bins.h"
#include "allocator/size_order.h"
#include "driver/check.h"

namespace thermocline {

template <class Tag>
class Bfc;

// Links by address.
template <class Tag>
class BfcChunk : public boost::intrusive::list_base_hook<>, public SizeHook, public BinHook<BfcChunk<Tag>> {
 public:
  std::uint64_t offset() const { return offset_; }
  std::uint64_t size() const { return size_; }
  std::uint64_t end() const { return offset_ + size_; }
  bool is_free() const { return free_; }
  bool begins_range() const { return begins_range_; }

  // While the chunk is free, its shelf must not change.
  Tag tag;

 private:
  friend class Bfc<Tag>;
  std::uint64_t offset_ = 0;
  std::uint64_t size_ = 0;
  bool free_ = false;
  bool begins_range_ = false;
  std::uint8_t shelf_ = 0;  // while it is free
};

template <class Tag>
class Bfc {
 public:
  using Chunk = BfcChunk<Tag>;
  using Shelf = SizeOrder<Chunk>;

  Bfc() = default;
  Bfc(const Bfc&) = delete;
  Bfc& operator=(const Bfc&) = delete;
  ~Bfc() {
    for (Shelf& shelf : shelves_) shelf.clear();
    chunks_.clear();
  }

  // Adds a free range. The returned chunk begins the range as long as the range exists, whatever is done with the rest.
  Chunk* add_range(std::uint64_t offset, std::uint64_t size, const Tag& tag) {
    Chunk* chunk = new_chunk(offset, size);
    chunk->tag = tag;
    chunk->begins_range_ = true;
    chunks_.push_back(*chunk);
    shelve(chunk);
    return chunk;
  }

  // Removes the range that begins with `first`; it must be free, in one chunk.
  void remove_range(Chunk* first) {
    THERMOCLINE_CHECK(first->free_ && first->begins_range_ && ends_range(first),
                      "A range is removed when all of it is free.");
    unshelve(first);
    retire(first);
  }

  // The smallest free chunk of the shelf that is large enough; among equals the lowest. Null when there is none.
  Chunk* best_fit(unsigned shelf, std::uint64_t size) { return shelves_[shelf].fit(size); }

  // Takes [offset, offset + size) out of `first` and, if that is too short, out of the free chunks that follow it,
  // whatever their shelf. The result is in use, and its tag is the union of theirs.
  Chunk* take(Chunk* first, std::uint64_t offset, std::uint64_t size) {
    THERMOCLINE_CHECK(first->free_ && first->offset_ <= offset && offset < first->end(),
                      "A taken range begins in a free chunk.");
    unshelve(first);
    Chunk* taken = first;
    if (first->offset_ < offset) {
      taken = split_behind(first, offset - first->offset_);
      shelve(first);
    }
    while (taken->size_ < size) {
      Chunk* next = right_of(taken);
      THERMOCLINE_CHECK(next != nullptr && next->free_, "A taken range is free to its end.");
      unshelve(next);
      const std::uint64_t missing = size - taken->size_;
      if (next->size_ <= missing) {
        absorb(taken, next);
        continue;
      }
      // The rest of the last chunk stays as it is.
      taken->tag.join(next->tag);
      taken->size_ += missing;
      next->offset_ += missing;
      next->size_ -= missing;
      shelve(next);
    }
    if (taken->size_ > size) shelve(split_behind(taken, size));
    return taken;
  }

  // Frees a chunk; returns the free chunk that contains it after merging.
  Chunk* give(Chunk* chunk) {
    THERMOCLINE_CHECK(!chunk->free_, "A chunk is freed once.");
    if (Chunk* right = right_of(chunk); right != nullptr && right->free_ && chunk->tag.merges_with(right->tag)) {
      unshelve(right);
      absorb(chunk, right);
    }
    if (Chunk* left = left_of(chunk); left != nullptr && left->free_ && left->tag.merges_with(chunk->tag)) {
      unshelve(left);
      absorb(left, chunk);
      chunk = left;
    }
    shelve(chunk);
    return chunk;
  }

  // Cuts a chunk in use in two; both carry its tag. Returns the right one.
  Chunk* split(Chunk* chunk, std::uint64_t left_size) {
    THERMOCLINE_CHECK(!chunk->free_ && left_size > 0 && left_size < chunk->size_, "A split leaves two chunks in use.");
    return split_behind(chunk, left_size);
  }

  // Neighbors in the same range, or null.
  const Chunk* right_of(const Chunk* chunk) const {
    const auto next = std::next(chunks_.iterator_to(*chunk));
    return next != chunks_.end() && !next->begins_range_ ? &*next : nullptr;
  }
  Chunk* right_of(Chunk* chunk) {
    auto next = std::next(chunks_.iterator_to(*chunk));
    return next != chunks_.end() && !next->begins_range_ ? &*next : nullptr;
  }
  Chunk* left_of(Chunk* chunk) { return chunk->begins_range_ ? nullptr : &*std::prev(chunks_.iterator_to(*chunk)); }

  // A shelf in order.
  Shelf& shelf(unsigned index) { return shelves_[index]; }
  const Shelf& shelf(unsigned index) const { return shelves_[index]; }
  // The free chunks of any shelf.
  template <class Visit>
  void for_each_on(unsigned index, Visit visit) {
    if (!is_loose(index)) return shelves_[index].each(visit);
    for (Chunk* chunk = loose(index).first(); chunk != nullptr; chunk = BinList<Chunk>::behind(*chunk)) visit(*chunk);
  }
  std::uint64_t free_size(unsigned index) const { return free_size_[index]; }

  // In order of address within each range.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Chunk& chunk : chunks_) visit(chunk);
  }

  // Checks the invariants: the chunks of a range follow one another without a gap; a free chunk is on the shelf of its
  // tag, a chunk in use on none; no two free neighbors remain that their tags allow to be merged.
  void validate() const {
    std::uint64_t sums[Tag::kShelves] = {};
    std::size_t counts[Tag::kShelves] = {};
    const Chunk* left = nullptr;
    for (const Chunk& chunk : chunks_) {
      THERMOCLINE_CHECK(chunk.size_ > 0, "A chunk is not empty.");
      if (!chunk.begins_range_) {
        THERMOCLINE_CHECK(left != nullptr && left->end() == chunk.offset_, "Chunks of a range follow without a gap.");
        THERMOCLINE_CHECK(!(left->free_ && chunk.free_ && left->tag.merges_with(chunk.tag)),
                          "Free neighbours are one chunk.");
      }
      left = &chunk;
      if (!chunk.free_) continue;
      const unsigned index = chunk.tag.shelf();
      THERMOCLINE_CHECK(chunk.shelf_ == index && (is_loose(index) || shelves_[index].has(chunk)),
                        "A free chunk lies on its shelf.");
      sums[index] += chunk.size_;
      ++counts[index];
    }
    for (unsigned index = 0; index < Tag::kShelves; ++index) {
      // The bin of a loose chunk is the number of its shelf.
      const std::size_t lie_there = is_loose(index)
                                        ? loose(index).check(index, [index](std::uint64_t) { return index; })
                                        : shelves_[index].check();
      THERMOCLINE_CHECK(counts[index] == lie_there, "Only free chunks lie on a shelf, in order.");
      THERMOCLINE_CHECK(sums[index] == free_size_[index], "A shelf's size is the sum of its chunks.");
    }
    THERMOCLINE_CHECK(chunks_.size() == pool_.taken(), "Every chunk is in a range.");
  }

 private:
  Chunk* new_chunk(std::uint64_t offset, std::uint64_t size) {
    Chunk* chunk = pool_.take();
    chunk->offset_ = offset;
    chunk->size_ = size;
    chunk->free_ = false;
    chunk->begins_range_ = false;
    return chunk;
  }

  void retire(Chunk* chunk) {
    chunks_.erase(chunks_.iterator_to(*chunk));
    chunk->tag.clear();
    pool_.give(chunk);
  }

  void shelve(Chunk* chunk) {
    chunk->free_ = true;
    const unsigned index = chunk->tag.shelf();
    chunk->shelf_ = static_cast<std::uint8_t>(index);
    free_size_[index] += chunk->size_;
    if (is_loose(index)) {
      chunk->bin = index;
      loose(index).put(*chunk);
    } else {
      shelves_[index].put(*chunk);
    }
  }

  void unshelve(Chunk* chunk) {
    chunk->free_ = false;
    const unsigned index = chunk->shelf_;
    free_size_[index] -= chunk->size_;
    if (is_loose(index)) {
      BinList<Chunk>::remove(*chunk);
    } else {
      shelves_[index].remove(*chunk);
    }
  }

  // Splits a chunk that is on no shelf; returns the right part, which is on none either.
  Chunk* split_behind(Chunk* chunk, std::uint64_t left_size) {
    Chunk* right = new_chunk(chunk->offset_ + left_size, chunk->size_ - left_size);
    right->tag = chunk->tag;
    chunk->size_ = left_size;
    chunks_.insert(std::next(chunks_.iterator_to(*chunk)), *right);
    return right;
  }

  void absorb(Chunk* left, Chunk* right) {
    left->tag.join(right->tag);
    left->size_ += right->size_;
    retire(right);
  }

  bool ends_range(Chunk* chunk) { return right_of(chunk) == nullptr; }

  static constexpr bool is_loose(unsigned shelf) { return shelf >= Tag::kOrdered; }

  BinList<Chunk>& loose(unsigned shelf) { return loose_[shelf - Tag::kOrdered]; }
  const BinList<Chunk>& loose(unsigned shelf) const { return loose_[shelf - Tag::kOrdered]; }

  boost::intrusive::list<Chunk> chunks_;
  Shelf shelves_[Tag::kOrdered];
  BinList<Chunk> loose_[Tag::kShelves - Tag::kOrdered + 1];  // one more, because there may be none
  std::uint64_t free_size_[Tag::kShelves] = {};
  ObjectPool<Chunk> pool_;
};

}  // namespace thermocline
