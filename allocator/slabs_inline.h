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
    to.assign_at_once(from);
  } else {
    to = from;
  }
}

// Cuts a hole of at least that size: its left part is for a buffer, the rest becomes a hole.
template <bool kAtOnce, class Bins>
[[gnu::always_inline]] inline void Slabs::take_from(Bins& bins, Buffer* hole, std::uint32_t granules) {
  if (hole->granules_ == granules) return take_out_of(bins, *hole);
  Buffer* const rest = kAtOnce ? records_.take_next() : records_.take();
  take_out_of(bins, *hole);
  rest->address_ = hole->address_ + granules * kGranule;
  rest->granules_ = hole->granules_ - granules;
  rest->block_ = hole->block_;
  assign<kAtOnce>(rest->former, hole->former);
  rest->left_ = hole;
  rest->right_ = hole->right_;
  if (rest->right_ != nullptr) rest->right_->left_ = rest;
  hole->right_ = rest;
  hole->granules_ = granules;
  put_in(bins, *rest);
}

// Merges two neighbors that are in no bin into one, the left.
[[gnu::always_inline]] inline void Slabs::absorb(Buffer* left, Buffer* right) {
  left->granules_ += right->granules_;
  left->right_ = right->right_;
  if (left->right_ != nullptr) left->right_->left_ = left;
  records_.give(right);
}

// Places a buffer in a hole that fits.
template <bool kAtOnce>
[[gnu::always_inline]] inline void Slabs::fill(Block& slab, Buffer* hole, std::uint64_t granules, Bytes requested) {
  if (is_small(granules)) {
    take_from<kAtOnce>(*slab.small_holes_, hole, static_cast<std::uint32_t>(granules));
    used_small_ += granules;
  } else {
    take_from<kAtOnce>(*slab.large_holes_, hole, static_cast<std::uint32_t>(granules));
    if (requested < slab.least_requested_) slab.least_requested_ = requested;
  }
  slab.used_granules_ += granules;
  slab.table_.put(hole);
}

inline Buffer* Slabs::place_inline(Bytes requested, bool only_mapped) {
  const std::uint64_t granules = granules_of(requested);
  Buffer* const buffer = is_small(granules) ? find_small_hole(granules) : find_large_hole(granules);
  if (buffer == nullptr) return nullptr;
  Block& slab = *buffer->block_;
  if (only_mapped && !slab.mapped_when_placed_) return nullptr;
  fill<false>(slab, buffer, granules, requested);
  return buffer;
}

inline bool Slabs::can_take_at_once(const Buffer& hole, std::uint64_t granules) const {
  if (hole.granules_ == granules) return true;
  const Buffer* const rest = records_.next();
  return rest != nullptr && rest->former.is_inline() && hole.former.is_inline();
}

template <class Accepts>
[[gnu::always_inline]] inline Buffer* Slabs::place_at_once(Bytes requested, Accepts accepts) {
  const std::uint64_t granules = granules_of(requested);
  Buffer* hole = nullptr;
  if (!is_small(granules)) {
    hole = large_holes_[1].fit(granules);
  } else if (filling_ != nullptr) {
    hole = filling_->small_holes_->fit(granules);
  }
  if (hole == nullptr) return nullptr;
  Block& slab = *hole->block_;
  if (!slab.mapped_when_placed_ || !can_take_at_once(*hole, granules) || !accepts(*hole)) return nullptr;
  fill<true>(slab, hole, granules, requested);
  return hole;
}

// Also merges it with the holes beside it.
template <bool kAtOnce, class Bins>
[[gnu::always_inline]] inline void Slabs::become_hole(Bins& bins, Buffer* buffer) {
  // With what the holes beside it wait for: that is among the uses of the slab, or has passed.
  const UseSet& uses = buffer->block_->uses;
  if (Buffer* const right = buffer->right_; right != nullptr && right->is_hole_) {
    take_out_of(bins, *right);
    absorb(buffer, right);
  }
  if (Buffer* const left = buffer->left_; left != nullptr && left->is_hole_) {
    take_out_of(bins, *left);
    absorb(left, buffer);
    buffer = left;
  }
  assign<kAtOnce>(buffer->former, uses);
  put_in(bins, *buffer);
}

template <bool kAtOnce>
[[gnu::always_inline]] inline void Slabs::vacate(Buffer* buffer, std::uint64_t window) {
  Block& slab = *buffer->block_;
  slab.table_.remove(buffer, window);
  slab.used_granules_ -= buffer->granules_;
  if (slab.small_holes_ != nullptr) {
    used_small_ -= buffer->granules_;
    become_hole<kAtOnce>(*slab.small_holes_, buffer);
  } else {
    become_hole<kAtOnce>(*slab.large_holes_, buffer);
  }
}

inline void Slabs::remove_inline(Buffer* buffer, std::uint64_t window) { vacate<false>(buffer, window); }

inline bool Slabs::can_remove_at_once(const Buffer& buffer) {
  const Buffer* const left = buffer.left_;
  const Buffer& hole = left != nullptr && left->is_hole_ ? *left : buffer;
  return hole.former.is_inline() && buffer.block_->uses.is_inline();
}

[[gnu::always_inline]] inline void Slabs::remove_at_once(Buffer* buffer, std::uint64_t window) {
  vacate<true>(buffer, window);
}

}  // namespace thermocline
