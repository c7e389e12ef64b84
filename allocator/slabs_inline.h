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

// Cuts a hole of at least that size: its left part is for a buffer, the rest becomes a hole.
template <class Bins>
[[gnu::always_inline]] inline void Slabs::take_from(Bins& bins, Buffer* hole, std::uint32_t granules) {
  Buffer* rest = nullptr;
  if (hole->granules_ > granules) rest = records_.take();
  take_out_of(bins, *hole);
  if (rest == nullptr) return;
  rest->address_ = hole->address_ + granules * kGranule;
  rest->granules_ = hole->granules_ - granules;
  rest->block_ = hole->block_;
  rest->former = hole->former;
  rest->left_ = hole;
  rest->right_ = hole->right_;
  if (rest->right_ != nullptr) rest->right_->left_ = rest;
  hole->right_ = rest;
  hole->granules_ = granules;
  put_in(bins, *rest);
}

// Merges two neighbors that are in no bin into one, the left.
inline void Slabs::absorb(Buffer* left, Buffer* right) {
  left->granules_ += right->granules_;
  left->right_ = right->right_;
  if (left->right_ != nullptr) left->right_->left_ = left;
  records_.give(right);
}

[[gnu::always_inline]] inline Buffer* Slabs::place_inline(Bytes requested, bool only_mapped) {
  const std::uint64_t granules = taken_by(requested) / kGranule;
  const bool small = granules <= kLargestSmall / kGranule;
  Buffer* const buffer = small ? find_small_hole(granules) : find_large_hole(granules);
  if (buffer == nullptr) return nullptr;
  Block& slab = *buffer->block_;
  if (only_mapped && !slab.mapped_when_placed_) return nullptr;
  if (small) {
    take_from(*slab.small_holes_, buffer, static_cast<std::uint32_t>(granules));
    used_small_ += granules;
  } else {
    take_from(*slab.large_holes_, buffer, static_cast<std::uint32_t>(granules));
    if (requested < slab.least_requested_) slab.least_requested_ = requested;
  }
  slab.used_granules_ += granules;
  slab.table_.put(buffer);
  return buffer;
}

// Also merges it with the holes beside it.
template <class Bins>
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
  buffer->former = uses;
  put_in(bins, *buffer);
}

[[gnu::always_inline]] inline void Slabs::remove_inline(Buffer* buffer, std::uint64_t window) {
  Block& slab = *buffer->block_;
  slab.table_.remove(buffer, window);
  slab.used_granules_ -= buffer->granules_;
  if (slab.small_holes_ != nullptr) {
    used_small_ -= buffer->granules_;
    become_hole(*slab.small_holes_, buffer);
  } else {
    become_hole(*slab.large_holes_, buffer);
  }
}

}  // namespace thermocline
