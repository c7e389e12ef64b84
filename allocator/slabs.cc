// SPDX-License-Identifier: Apache-2.0
#include "allocator/slabs.h"

#include <algorithm>
#include <bit>

#include "allocator/slabs_inline.h"
#include "driver/check.h"

namespace thermocline {
namespace {

// Up to one part in this many of all slabs of small buffers may be holes.
constexpr Bytes kFullPerHole = 8;

// A new slab is at most one part in this many of all slabs, so that a program with few small buffers does not pay for
// large slabs.
constexpr Bytes kSlabsOfLargest = 16;

// How many slabs are tried in the search for one that can be filled.
constexpr std::size_t kMostTried = 64;

}  // namespace

Bytes Block::contents_end_of_slab() const {
  const Buffer* const last = Slabs::at_or_before(*this, end());
  return last != nullptr ? last->end() - begin_ : 0;
}

Bytes Slabs::size_for(Bytes requested) const {
  const Bytes least = round_up(taken_by(requested), page_bytes_);
  if (kind_of(requested) == SlabKind::kSmall) return least;
  const Bytes wanted = std::clamp(bytes_ / kSlabsOfLargest, std::min(page_bytes_, slab_bytes_), slab_bytes_);
  return std::max(least, round_up(wanted, page_bytes_));
}

inline bool Slabs::has_many_holes() const {
  const Bytes all = bytes_of_kind_[static_cast<std::size_t>(SlabKind::kSmall)];
  return (all - used_small_ * kGranule) * kFullPerHole > all;
}

// Finds a hole outside the slab that is being filled: in the next slab with many holes, which is filled from now on;
// or, if there are many holes in all, in any slab. If only evicted slabs have many, one of them is fetched and filled,
// rather than many slabs for one hole each.
Buffer* Slabs::find_small_hole_elsewhere(std::uint64_t granules) {
  if (!has_many_holes()) return nullptr;
  const std::vector<Block*>& small = of_kind_[static_cast<std::size_t>(SlabKind::kSmall)];
  Block* evicted = nullptr;
  Buffer* anywhere = nullptr;
  for (std::size_t tried = 0; tried < std::min(small.size(), kMostTried); ++tried) {
    next_small_ = next_small_ + 1 < small.size() ? next_small_ + 1 : 0;
    Block* const slab = small[next_small_];
    Buffer* const fit = slab->small_holes_->fit(granules);
    if (fit == nullptr || slab == filling_) continue;
    const Bytes free = slab->bytes() - slab->used_granules_ * kGranule;
    const bool many = free * kFullPerHole >= slab->bytes();
    if (many && slab->mapped()) {
      filling_ = slab;
      return fit;
    }
    if (many && evicted == nullptr) evicted = slab;
    if (anywhere == nullptr || (slab->mapped() && !anywhere->block_->mapped())) anywhere = fit;
  }
  if (evicted == nullptr) return anywhere;
  filling_ = evicted;
  return evicted->small_holes_->fit(granules);
}

Buffer* Slabs::place(Bytes requested) { return place_inline(requested, false); }

void Slabs::remove(Buffer* buffer) {
  std::uint64_t window = 0;
  THERMOCLINE_CHECK(at(*buffer->block_, buffer->address_, &window) == buffer, "What is removed is there.");
  remove_inline(buffer, window);
}

Buffer* Slabs::at_or_before(const Block& slab, DeviceAddress address) {
  return slab.table_.last_until(std::min(address, slab.end() - 1));
}

void Slabs::add(Block* slab, SlabKind kind) {
  // All that takes memory comes first, so that nothing has changed if there is none.
  std::vector<Block*>& all = of_kind_[static_cast<std::size_t>(kind)];
  if (all.size() == all.capacity()) all.reserve(2 * all.size() + 8);
  Buffer* const hole = records_.take();
  ExactBins<Buffer>* small_holes = nullptr;
  try {
    if (kind == SlabKind::kSmall) small_holes = small_holes_.take();
    slab->table_.open(slab->begin(), slab->bytes(), kind == SlabKind::kSmall ? Windows::kNarrow : Windows::kWide,
                      table_memory_);
  } catch (...) {
    if (small_holes != nullptr) small_holes_.give(small_holes);
    records_.give(hole);
    throw;
  }
  slab->used_granules_ = 0;
  slab->mapped_when_placed_ = slab->mapped();
  slab->large_holes_ = &large_holes_[slab->mapped() ? 1 : 0];
  slab->slab_kind_ = kind;
  slab->least_requested_ = kind == SlabKind::kSmall ? 0 : slab->bytes();
  slab->place_in_kind_ = all.size();
  all.push_back(slab);
  bytes_of_kind_[static_cast<std::size_t>(kind)] += slab->bytes();
  bytes_ += slab->bytes();
  if (kind == SlabKind::kSmall) {
    slab->small_holes_ = small_holes;
    filling_ = slab;
  }
  hole->address_ = slab->begin();
  hole->granules_ = static_cast<std::uint32_t>(slab->bytes() / kGranule);
  hole->block_ = slab;
  hole->former = slab->uses;
  hole->left_ = hole->right_ = nullptr;
  slab->first_ = hole;
  put(*hole);
}

void Slabs::drop(Block* slab) {
  Buffer* const hole = slab->first_;
  THERMOCLINE_CHECK(hole->is_hole_ && hole->right_ == nullptr, "A slab is dropped when all of it is free.");
  take_out(*hole);
  records_.give(hole);
  slab->first_ = nullptr;
  slab->table_.close(table_memory_);
  if (slab->small_holes_ != nullptr) small_holes_.give(slab->small_holes_);
  slab->small_holes_ = nullptr;
  if (filling_ == slab) filling_ = nullptr;
  std::vector<Block*>& all = of_kind_[static_cast<std::size_t>(slab->slab_kind_)];
  all.back()->place_in_kind_ = slab->place_in_kind_;
  all[slab->place_in_kind_] = all.back();
  all.pop_back();
  bytes_of_kind_[static_cast<std::size_t>(slab->slab_kind_)] -= slab->bytes();
  bytes_ -= slab->bytes();
}

void Slabs::mapped_changed(Block* slab) {
  const bool mapped = slab->mapped();
  if (!mapped && filling_ == slab) filling_ = nullptr;
  std::vector<Buffer*> holes;
  for (Buffer* chunk = slab->first_; chunk != nullptr; chunk = chunk->right_) {
    if (chunk->is_hole_) holes.push_back(chunk);
  }
  for (Buffer* hole : holes) take_out(*hole);
  slab->mapped_when_placed_ = mapped;
  slab->large_holes_ = &large_holes_[mapped ? 1 : 0];
  for (Buffer* hole : holes) {
    // A slab is unmapped only when all its uses have completed.
    if (!mapped) hole->former.clear();
    put(*hole);
  }
}

Bytes Slabs::largest_hole() const {
  std::uint64_t largest = 0;
  for (const auto& slabs : of_kind_) {
    for (const Block* slab : slabs) {
      for (const Buffer* chunk = slab->first_; chunk != nullptr; chunk = chunk->right_) {
        if (chunk->is_hole_) largest = std::max<std::uint64_t>(largest, chunk->granules_);
      }
    }
  }
  return largest * kGranule;
}

std::uint64_t Slabs::holes() const {
  std::uint64_t holes = 0;
  for (const auto& slabs : of_kind_) {
    for (const Block* slab : slabs) {
      for (const Buffer* chunk = slab->first_; chunk != nullptr; chunk = chunk->right_)
        holes += chunk->is_hole_ ? 1 : 0;
    }
  }
  return holes;
}

// The number of its holes.
std::uint64_t Slabs::validate_slab(const Block& slab) const {
  slab.table_.validate();
  std::uint64_t granule = 0, used = 0, holes = 0;
  const Buffer* left = nullptr;
  for (const Buffer* chunk = slab.first_; chunk != nullptr; chunk = chunk->right_) {
    THERMOCLINE_CHECK(chunk->block_ == &slab && chunk->left_ == left && chunk->granules_ > 0 &&
                          chunk->address_ == slab.begin() + granule * kGranule,
                      "Chunks of a slab follow without a gap.");
    THERMOCLINE_CHECK(left == nullptr || !left->is_hole_ || !chunk->is_hole_, "Neighbouring holes are one.");
    THERMOCLINE_CHECK((slab.table_.find(chunk->address_) == chunk) == !chunk->is_hole_, "Buffers are in the table.");
    if (chunk->is_hole_) {
      ++holes;
      THERMOCLINE_CHECK(slab.small_holes_ != nullptr ? slab.small_holes_->has(*chunk)
                                                     : large_holes_[slab.mapped() ? 1 : 0].has(*chunk),
                        "A hole is in the bin of its size.");
    } else {
      used += chunk->granules_;
      THERMOCLINE_CHECK(chunk->requested() <= chunk->granules_ * kGranule && chunk->requested() > 0 &&
                            chunk->requested() >= slab.least_requested_ &&
                            kind_of(chunk->requested()) == slab.slab_kind_,
                        "A buffer fits its chunk, in a slab of its kind, and is no smaller than the smallest there.");
    }
    granule += chunk->granules_;
    left = chunk;
  }
  THERMOCLINE_CHECK(granule * kGranule == slab.bytes(), "Chunks cover their slab.");
  THERMOCLINE_CHECK(slab.small_holes_ == nullptr || used == slab.used_granules_,
                    "A slab counts what its buffers take.");
  THERMOCLINE_CHECK(
      slab.mapped_when_placed_ == slab.mapped() && slab.large_holes_ == &large_holes_[slab.mapped() ? 1 : 0],
      "A slab knows what is mapped.");
  if (slab.small_holes_ != nullptr)
    THERMOCLINE_CHECK(slab.small_holes_->check() == holes, "Only its holes are in a slab's bins.");
  return holes;
}

void Slabs::validate() const {
  table_memory_.validate();
  std::uint64_t large_holes = 0;
  Bytes all_bytes = 0;
  for (const SlabKind kind : {SlabKind::kSmall, SlabKind::kLarge}) {
    const std::vector<Block*>& slabs = of_kind_[static_cast<std::size_t>(kind)];
    Bytes bytes = 0;
    std::uint64_t used = 0;
    for (std::size_t i = 0; i < slabs.size(); ++i) {
      const Block& slab = *slabs[i];
      THERMOCLINE_CHECK(slab.place_in_kind_ == i && slab.slab_kind_ == kind && slab.is_slab() &&
                            (slab.small_holes_ != nullptr) == (kind == SlabKind::kSmall),
                        "A slab is among those of its kind.");
      const std::uint64_t holes = validate_slab(slab);
      large_holes += kind == SlabKind::kLarge ? holes : 0;
      bytes += slab.bytes();
      used += slab.used_granules_;
    }
    THERMOCLINE_CHECK(bytes == bytes_of_kind_[static_cast<std::size_t>(kind)], "The slabs of a kind are counted.");
    THERMOCLINE_CHECK(kind != SlabKind::kSmall || used == used_small_, "What small buffers take is counted.");
    all_bytes += bytes;
  }
  THERMOCLINE_CHECK(all_bytes == bytes_, "All slabs are counted.");
  THERMOCLINE_CHECK(large_holes_[0].check() + large_holes_[1].check() == large_holes, "Only holes are in bins.");
  THERMOCLINE_CHECK(filling_ == nullptr || (filling_->small_holes_ != nullptr && filling_->first_ != nullptr),
                    "The slab that is being filled is one of small buffers.");
}

}  // namespace thermocline
