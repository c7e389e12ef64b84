// SPDX-License-Identifier: Apache-2.0
// Placing and removing buffers in slabs for code that does so for every allocation: inline, because the frames of small
// functions would be a quarter of the cost. All other code calls Slabs::place and Slabs::remove.
#pragma once

#include "allocator/slabs.h"
#include "driver/check.h"

namespace thermocline {

template <class Bins>
[[gnu::always_inline]] inline void Slabs::put_in(Bins& bins, Buffer& hole) {
  hole.is_hole_ = true;
  bins.put(hole);
}

template <class Bins>
[[gnu::always_inline]] inline void Slabs::take_out_of(Bins& bins, Buffer& hole) {
  hole.is_hole_ = false;
  bins.remove(hole);
}

inline void Slabs::put(Buffer& hole) {
  Block& slab = *hole.block_;
  if (slab.small_holes_ != nullptr) {
    put_in(*slab.small_holes_, hole);
  } else {
    put_in(*slab.large_holes_, hole);
  }
}

inline void Slabs::take_out(Buffer& hole) {
  Block& slab = *hole.block_;
  if (slab.small_holes_ != nullptr) {
    take_out_of(*slab.small_holes_, hole);
  } else {
    take_out_of(*slab.large_holes_, hole);
  }
}

inline Buffer* Slabs::find_large_hole(std::uint64_t granules) {
  Buffer* const fit = large_holes_[1].fit(granules);
  return fit != nullptr ? fit : large_holes_[0].fit(granules);
}

inline Buffer* Slabs::find_small_hole(std::uint64_t granules) {
  if (filling_ != nullptr) {
    if (Buffer* const fit = filling_->small_holes_->fit(granules); fit != nullptr) return fit;
  }
  return find_small_hole_elsewhere(granules);
}

template <bool kAtOnce>
[[gnu::always_inline]] inline void Slabs::assign(UseSet& to, const UseSet& from) {
  if constexpr (kAtOnce) {
    to.assign_short(from);
  } else {
    to = from;
  }
}

// The left part of a hole of at least that size, for a buffer. The rest stays where it is, with what it waits for.
template <bool kAtOnce, class Bins>
[[gnu::always_inline]] inline Buffer* Slabs::take_from(Bins& bins, Buffer* hole, std::uint32_t granules) {
  if (hole->granules_ == granules) {
    take_out_of(bins, *hole);
    return hole;
  }
  Buffer* const taken = kAtOnce ? records_.take_next() : records_.take();
  Buffer* const left = hole->left_;
  taken->address_ = hole->address_;
  taken->granules_ = granules;
  taken->block_ = hole->block_;
  assign<kAtOnce>(taken->former, hole->former);
  taken->left_ = left;
  taken->right_ = hole;
  hole->left_ = taken;
  (left != nullptr ? left->right_ : hole->block_->first_) = taken;
  hole->address_ = hole->address_ + granules * kGranule;
  hole->granules_ -= granules;
  bins.resized(*hole);
  return taken;
}

// Place a buffer in a hole that fits.
template <bool kAtOnce>
[[gnu::always_inline]] inline Buffer* Slabs::fill_small(Block& slab, Buffer* hole, std::uint64_t granules) {
  Buffer* const buffer = take_from<kAtOnce>(*slab.small_holes_, hole, static_cast<std::uint32_t>(granules));
  used_small_ += granules;
  slab.used_granules_ += granules;
  slab.table_.put<Windows::kNarrow>(buffer);
  return buffer;
}

template <bool kAtOnce>
[[gnu::always_inline]] inline Buffer* Slabs::fill_large(Block& slab, Buffer* hole, std::uint64_t granules,
                                                        Bytes requested) {
  Buffer* const buffer = take_from<kAtOnce>(*slab.large_holes_, hole, static_cast<std::uint32_t>(granules));
  if (requested < slab.least_requested_) slab.least_requested_ = requested;
  slab.table_.put<Windows::kWide>(buffer);
  return buffer;
}

inline Buffer* Slabs::place_inline(Bytes requested, bool only_mapped) {
  const std::uint64_t granules = granules_of(requested);
  Buffer* const hole = is_small(granules) ? find_small_hole(granules) : find_large_hole(granules);
  if (hole == nullptr) return nullptr;
  Block& slab = *hole->block_;
  if (only_mapped && !slab.mapped_when_placed_) return nullptr;
  return is_small(granules) ? fill_small<false>(slab, hole, granules)
                            : fill_large<false>(slab, hole, granules, requested);
}

inline bool Slabs::can_take_at_once(const Buffer& hole, std::uint64_t granules) const {
  if (hole.granules_ == granules) return true;
  return records_.next() != nullptr && hole.former.is_short();
}

template <class Accepts>
[[gnu::always_inline]] inline Buffer* Slabs::place_at_once(Bytes requested, Accepts accepts) {
  const std::uint64_t granules = granules_of(requested);
  if (is_small(granules)) {
    if (filling_ == nullptr || !filling_->mapped_when_placed_) return nullptr;
    Buffer* const hole = filling_->small_holes_->fit(granules);
    if (hole == nullptr || !can_take_at_once(*hole, granules) || !accepts(*filling_, hole->former)) return nullptr;
    return fill_small<true>(*filling_, hole, granules);
  }
  Buffer* const hole = large_holes_[1].fit(granules);
  if (hole == nullptr || !can_take_at_once(*hole, granules)) return nullptr;
  Block& slab = *hole->block_;
  return accepts(slab, hole->former) ? fill_large<true>(slab, hole, granules, requested) : nullptr;
}

// Takes the record of `chunk`, which is in no bin, out of the slab; its bytes go to a neighbor.
[[gnu::always_inline]] inline void Slabs::unlink(Buffer* chunk) {
  Buffer* const left = chunk->left_;
  Buffer* const right = chunk->right_;
  (left != nullptr ? left->right_ : chunk->block_->first_) = right;
  if (right != nullptr) right->left_ = left;
  records_.give(chunk);
}

// Or adds it to the hole beside it; it joins two holes to one.
template <bool kAtOnce, class Bins>
[[gnu::always_inline]] inline void Slabs::become_hole(Bins& bins, Buffer* buffer) {
  // With what the holes beside it wait for: that is among the uses of the slab, or has passed.
  const UseSet& uses = buffer->block_->uses;
  Buffer* const left = buffer->left_;
  Buffer* const right = buffer->right_;
  const bool joins_right = right != nullptr && right->is_hole_;
  if (left != nullptr && left->is_hole_) {
    left->granules_ += buffer->granules_;
    if (joins_right) {
      left->granules_ += right->granules_;
      take_out_of(bins, *right);
      unlink(right);
    }
    unlink(buffer);
    assign<kAtOnce>(left->former, uses);
    return bins.resized(*left);
  }
  if (joins_right) {
    right->address_ = buffer->address_;
    right->granules_ += buffer->granules_;
    unlink(buffer);
    assign<kAtOnce>(right->former, uses);
    return bins.resized(*right);
  }
  assign<kAtOnce>(buffer->former, uses);
  put_in(bins, *buffer);
}

template <bool kAtOnce>
[[gnu::always_inline]] inline void Slabs::vacate(Buffer* buffer, std::uint64_t window) {
  Block& slab = *buffer->block_;
  if (slab.small_holes_ != nullptr) {
    slab.table_.remove<Windows::kNarrow>(buffer, window);
    slab.used_granules_ -= buffer->granules_;
    used_small_ -= buffer->granules_;
    become_hole<kAtOnce>(*slab.small_holes_, buffer);
  } else {
    slab.table_.remove<Windows::kWide>(buffer, window);
    become_hole<kAtOnce>(*slab.large_holes_, buffer);
  }
}

inline void Slabs::remove_inline(Buffer* buffer, std::uint64_t window) { vacate<false>(buffer, window); }

inline bool Slabs::can_remove_at_once(const Buffer& buffer) { return buffer.block_->uses.is_short(); }

[[gnu::always_inline]] inline void Slabs::remove_at_once(Buffer* buffer, std::uint64_t window) {
  vacate<true>(buffer, window);
}

}  // namespace thermocline
