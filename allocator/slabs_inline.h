// SPDX-License-Identifier: Apache-2.0
// Placing and removing buffers in slabs for code that does so for every allocation: inline, because the frames of small
// functions would be a quarter of the cost. All other code calls Slabs::place and Slabs::remove.
#pragma once

#include "allocator/slabs.h"
#include "driver/check.h"

namespace thermocline {

inline void Slabs::put(Buffer& hole) {
  hole.is_hole_ = true;
  Block& slab = *hole.block_;
  if (slab.small_holes_ != nullptr) {
    slab.small_holes_->put(hole);
  } else {
    slab.large_holes_->put(hole);
  }
}

inline void Slabs::take_out(Buffer& hole) {
  hole.is_hole_ = false;
  Block& slab = *hole.block_;
  if (slab.small_holes_ != nullptr) {
    slab.small_holes_->remove(hole);
  } else {
    slab.large_holes_->remove(hole);
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

// Cuts the chunk, which is in no bin; the right part becomes a hole.
[[gnu::always_inline]] inline void Slabs::split(Buffer* chunk, std::uint32_t granules) {
  Buffer* const rest = records_.take();
  rest->address_ = chunk->address_ + granules * kGranule;
  rest->granules_ = chunk->granules_ - granules;
  rest->block_ = chunk->block_;
  rest->former = chunk->former;
  rest->left_ = chunk;
  rest->right_ = chunk->right_;
  if (rest->right_ != nullptr) rest->right_->left_ = rest;
  chunk->right_ = rest;
  chunk->granules_ = granules;
  put(*rest);
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
  const bool small = kind_of(requested) == SlabKind::kSmall;
  Buffer* const buffer = small ? find_small_hole(granules) : find_large_hole(granules);
  if (buffer == nullptr) return nullptr;
  Block& slab = *buffer->block_;
  if (only_mapped && !slab.mapped_when_placed_) return nullptr;
  take_out(*buffer);
  if (buffer->granules_ > granules) split(buffer, static_cast<std::uint32_t>(granules));
  slab.used_granules_ += granules;
  if (small) {
    used_small_ += granules;
  } else if (requested < slab.least_requested_) {
    slab.least_requested_ = requested;
  }
  buffers_.put(buffer->address_, buffer);
  return buffer;
}

[[gnu::always_inline]] inline void Slabs::remove_inline(Buffer* buffer, const AddressTable<Buffer>::Entry& entry) {
  Block& slab = *buffer->block_;
  buffers_.remove(entry);
  slab.used_granules_ -= buffer->granules_;
  if (slab.small_holes_ != nullptr) used_small_ -= buffer->granules_;
  if (Buffer* const right = buffer->right_; right != nullptr && right->is_hole_) {
    take_out(*right);
    absorb(buffer, right);
  }
  if (Buffer* const left = buffer->left_; left != nullptr && left->is_hole_) {
    take_out(*left);
    absorb(left, buffer);
    buffer = left;
  }
  // With what the holes beside it wait for: that is among the uses of the slab, or has passed.
  buffer->former = slab.uses;
  put(*buffer);
}

}  // namespace thermocline
