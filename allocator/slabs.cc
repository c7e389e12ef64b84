// SPDX-License-Identifier: Apache-2.0
#include "allocator/slabs.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "driver/check.h"

namespace thermocline {
namespace {

// Up to one part in this many of all slabs of small buffers may be holes.
constexpr Bytes kFullPerHole = 8;

// A buffer up to this size is small.
constexpr Bytes kLargestSmall = 32 * kKiB;

// A new slab is at most one part in this many of all slabs, so that a program with few small buffers does not pay for
// large slabs.
constexpr Bytes kSlabsOfLargest = 16;

// How many slabs are tried in the search for one that can be filled.
constexpr std::size_t kMostTried = 64;

}  // namespace

Bytes Block::contents_end() const {
  const Buffer* const last = is_slab_ ? slabs_->at_or_before(*this, end()) : sole_;
  return last != nullptr ? last->end() - begin_ : 0;
}

SlabKind Slabs::kind_of(Bytes requested) { return requested <= kLargestSmall ? SlabKind::kSmall : SlabKind::kLarge; }

Bytes Slabs::size_for(Bytes requested, Bytes page_bytes) const {
  if (kind_of(requested) == SlabKind::kSmall) return round_up(requested, page_bytes);
  const Bytes wanted = std::clamp(bytes_ / kSlabsOfLargest, std::min(page_bytes, slab_bytes_), slab_bytes_);
  return std::max(round_up(requested, page_bytes), round_up(wanted, page_bytes));
}

Slabs::Chunk* Slabs::best_fit(SlabKind kind, std::uint64_t granules) {
  Chunk* const fit = space_.best_fit(SlabTag::shelf_of(kind, true), granules);
  return fit != nullptr ? fit : space_.best_fit(SlabTag::shelf_of(kind, false), granules);
}

Slabs::Chunk* Slabs::place_small(std::uint64_t granules) {
  if (Chunk* fit = space_.best_fit(SlabTag::kFillingShelf, granules); fit != nullptr) return fit;
  if (!has_many_holes()) return nullptr;
  Chunk* const fit = fill_another(granules);
  return fit != nullptr ? fit : best_fit(SlabKind::kSmall, granules);
}

// If only evicted slabs have room, one slab is fetched and filled, rather than many slabs for one hole each.
Slabs::Chunk* Slabs::fill_another(std::uint64_t granules) {
  Block* away = nullptr;
  for (std::size_t tried = 0; tried < std::min(small_.size(), kMostTried); ++tried) {
    next_small_ = next_small_ + 1 < small_.size() ? next_small_ + 1 : 0;
    Block* const slab = small_[next_small_];
    const Bytes free = slab->bytes() - slab->used_granules_ * kGranule;
    if (slab == filling_ || free * kFullPerHole < slab->bytes()) continue;
    if (!slab->mapped()) {
      if (away == nullptr) away = slab;
      continue;
    }
    fill(slab);
    return space_.best_fit(SlabTag::kFillingShelf, granules);
  }
  if (away == nullptr) return nullptr;
  fill(away);
  return space_.best_fit(SlabTag::kFillingShelf, granules);
}

void Slabs::fill(Block* slab) {
  if (filling_ != nullptr) set_filling(*filling_, false);
  filling_ = slab;
  set_filling(*filling_, true);
}

void Slabs::set_filling(const Block& slab, bool filling) {
  for (Chunk* chunk = slab.first_; chunk != nullptr; chunk = space_.right_of(chunk)) {
    if (chunk->is_free()) space_.set_tag(chunk, [filling](SlabTag& tag) { tag.filling = filling; });
  }
}

bool Slabs::has_many_holes() const {
  const std::uint64_t free = space_.free_size(SlabTag::shelf_of(SlabKind::kSmall, true)) +
                             space_.free_size(SlabTag::shelf_of(SlabKind::kSmall, false)) +
                             space_.free_size(SlabTag::kFillingShelf);
  return free * kGranule * kFullPerHole > small_bytes_;
}

bool Slabs::place(Bytes requested, Buffer* buffer) {
  const std::uint64_t granules = round_up(requested, kGranule) / kGranule;
  const SlabKind kind = kind_of(requested);
  Chunk* const fit = kind == SlabKind::kSmall ? place_small(granules) : best_fit(kind, granules);
  if (fit == nullptr) return false;
  Chunk* const chunk = space_.take(fit, fit->offset(), granules);
  buffer->address_ = DeviceAddress{chunk->offset() * kGranule};
  buffer->block_ = chunk->tag.block;
  buffer->chunk_ = chunk;
  buffer->former.join(chunk->tag.pending);
  chunk->tag.pending.clear();
  chunk->tag.filling = false;
  chunk->tag.buffer = buffer;
  buffer->block_->used_granules_ += granules;
  buffers_.put(buffer->address_, buffer);
  mark(*buffer->block_, buffer->address_, true);
  return true;
}

void Slabs::remove(Buffer* buffer) {
  Chunk* const chunk = buffer->chunk_;
  THERMOCLINE_CHECK(chunk != nullptr && !chunk->is_free(), "A buffer is freed once.");
  buffer->chunk_ = nullptr;
  chunk->tag.buffer = nullptr;
  buffers_.remove(buffer->address_);
  mark(*buffer->block_, buffer->address_, false);
  buffer->block_->used_granules_ -= chunk->size();
  chunk->tag.filling = buffer->block_ == filling_;
  chunk->tag.pending.join(buffer->block_->uses);
  space_.give(chunk);
}

// A slab's starts: one bit for every granule, set where a buffer begins.
void Slabs::mark(Block& slab, DeviceAddress at, bool begins) {
  const std::uint64_t granule = (at - slab.begin()) / kGranule;
  const std::uint64_t bit = std::uint64_t{1} << granule % 64;
  std::uint64_t& word = slab.starts_[granule / 64];
  word = begins ? word | bit : word & ~bit;
}

Buffer* Slabs::at_or_before(const Block& slab, DeviceAddress address) const {
  if (Buffer* exact = buffers_.find(address); exact != nullptr) return exact;
  const std::uint64_t granule = std::min((address - slab.begin()) / kGranule, slab.bytes() / kGranule - 1);
  std::size_t word = granule / 64;
  std::uint64_t bits = slab.starts_[word] << (63 - granule % 64) >> (63 - granule % 64);
  while (bits == 0 && word > 0) bits = slab.starts_[--word];
  if (bits == 0) return nullptr;
  const std::uint64_t start = word * 64 + static_cast<std::uint64_t>(std::bit_width(bits)) - 1;
  return buffers_.find(slab.begin() + start * kGranule);
}

void Slabs::add(Block* slab, SlabKind kind) {
  slab->slabs_ = this;
  slab->starts_.assign((slab->bytes() / kGranule + 63) / 64, 0);
  SlabTag tag;
  tag.block = slab;
  tag.kind = kind;
  tag.mapped = slab->mapped();
  tag.pending = slab->uses;
  slab->first_ = space_.add_range(slab->begin().value / kGranule, slab->bytes() / kGranule, tag);
  bytes_ += slab->bytes();
  ++count_;
  slab->used_granules_ = 0;
  if (kind != SlabKind::kSmall) return;
  small_bytes_ += slab->bytes();
  slab->place_among_small_ = small_.size();
  small_.push_back(slab);
  fill(slab);
}

void Slabs::drop(Block* slab) {
  if (slab->first_->tag.kind == SlabKind::kSmall) {
    small_bytes_ -= slab->bytes();
    small_.back()->place_among_small_ = slab->place_among_small_;
    small_[slab->place_among_small_] = small_.back();
    small_.pop_back();
    if (filling_ == slab) filling_ = nullptr;
  }
  space_.remove_range(slab->first_);
  slab->first_ = nullptr;
  bytes_ -= slab->bytes();
  --count_;
}

void Slabs::mapped_changed(Block* slab) {
  const bool mapped = slab->mapped();
  if (!mapped && filling_ == slab) filling_ = nullptr;
  for (Chunk* chunk = slab->first_; chunk != nullptr; chunk = space_.right_of(chunk)) {
    space_.set_tag(chunk, [mapped](SlabTag& tag) {
      tag.mapped = mapped;
      // A slab is unmapped only when all its uses have completed.
      if (!mapped) tag.pending.clear();
      tag.filling = tag.filling && mapped;
    });
  }
}

void Slabs::validate() const {
  space_.validate();
  buffers_.validate();
  Bytes bytes = 0;
  Bytes small = 0;
  std::size_t live = 0;
  std::unordered_map<const Block*, std::uint64_t> used;
  space_.for_each([&](const Chunk& chunk) {
    const Block* const block = chunk.tag.block;
    THERMOCLINE_CHECK(block != nullptr && block->is_slab(), "A chunk of a slab has its block.");
    THERMOCLINE_CHECK(chunk.tag.mapped == block->mapped(), "A slab's chunks are mapped when the slab is.");
    THERMOCLINE_CHECK(block->begin().value <= chunk.offset() * kGranule && chunk.end() * kGranule <= block->end().value,
                      "A slab's chunks lie in it.");
    const DeviceAddress begin{chunk.offset() * kGranule};
    const Buffer* const buffer = buffers_.find(begin);
    THERMOCLINE_CHECK((buffer == nullptr) == chunk.is_free(), "A chunk in use is a live buffer.");
    const std::uint64_t granule = (begin - block->begin()) / kGranule;
    THERMOCLINE_CHECK((block->starts_[granule / 64] >> granule % 64 & 1) == (buffer != nullptr ? 1 : 0),
                      "A buffer's beginning is marked.");
    THERMOCLINE_CHECK(buffer == nullptr || (buffer->chunk_ == &chunk && chunk.tag.buffer == buffer &&
                                            buffer->requested() <= chunk.size() * kGranule),
                      "A buffer fits its chunk.");
    THERMOCLINE_CHECK(chunk.tag.filling == (chunk.is_free() && block == filling_),
                      "What is free in one slab is filled, and nothing else.");
    THERMOCLINE_CHECK(buffer == nullptr || kind_of(buffer->requested()) == chunk.tag.kind,
                      "Small buffers and large ones have slabs of their own.");
    small += chunk.tag.kind == SlabKind::kSmall ? chunk.size() * kGranule : 0;
    used[block] += chunk.is_free() ? 0 : chunk.size();
    live += buffer != nullptr ? 1 : 0;
    bytes += chunk.size() * kGranule;
  });
  THERMOCLINE_CHECK(live == buffers_.size(), "Only live buffers are found.");
  THERMOCLINE_CHECK(bytes == bytes_ && small == small_bytes_, "Chunks cover their slabs.");
  for (const auto& [slab, granules] : used) {
    THERMOCLINE_CHECK(slab->used_granules_ == granules, "A slab counts what its buffers take.");
  }
  for (std::size_t i = 0; i < small_.size(); ++i) {
    THERMOCLINE_CHECK(small_[i]->place_among_small_ == i && small_[i]->first_->tag.kind == SlabKind::kSmall,
                      "A slab of small buffers is among these.");
    small -= small_[i]->bytes();
  }
  THERMOCLINE_CHECK(small == 0, "All of them are.");
}

}  // namespace thermocline
