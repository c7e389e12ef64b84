// SPDX-License-Identifier: Apache-2.0
#include "allocator/slabs.h"

#include <algorithm>
#include <bit>

#include "driver/check.h"

namespace thermocline {

Bytes Block::contents_end() const {
  const Buffer* const last = is_slab_ ? slabs_->at_or_before(*this, end()) : sole_;
  return last != nullptr ? last->end() - begin_ : 0;
}

Bytes Slabs::size_for(Bytes requested, Bytes page_bytes) const {
  const Bytes wanted = std::clamp(bytes_ / 16, std::min(page_bytes, slab_bytes_), slab_bytes_);
  return std::max(round_up(requested, page_bytes), round_up(wanted, page_bytes));
}

bool Slabs::place(Bytes requested, Buffer* buffer) {
  const std::uint64_t granules = round_up(requested, kGranule) / kGranule;
  Chunk* fit = space_.best_fit(0, granules);
  if (fit == nullptr) fit = space_.best_fit(1, granules);
  if (fit == nullptr) return false;
  Chunk* const chunk = space_.take(fit, fit->offset(), granules);
  buffer->address_ = DeviceAddress{chunk->offset() * kGranule};
  buffer->block_ = chunk->tag.block;
  buffer->chunk_ = chunk;
  buffer->former.join(chunk->tag.pending);
  chunk->tag.pending.clear();
  chunk->tag.buffer = buffer;
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
  chunk->tag.pending.join(buffer->block_->uses);
  space_.give(chunk);
}

// A slab's starts: a bit for every granule, set where a buffer begins.
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

void Slabs::add(Block* slab) {
  slab->slabs_ = this;
  slab->starts_.assign((slab->bytes() / kGranule + 63) / 64, 0);
  SlabTag tag;
  tag.block = slab;
  tag.mapped = slab->mapped();
  tag.pending = slab->uses;
  slab->first_ = space_.add_range(slab->begin().value / kGranule, slab->bytes() / kGranule, tag);
  bytes_ += slab->bytes();
  ++count_;
}

void Slabs::drop(Block* slab) {
  space_.remove_range(slab->first_);
  slab->first_ = nullptr;
  bytes_ -= slab->bytes();
  --count_;
}

void Slabs::mapped_changed(Block* slab) {
  const bool mapped = slab->mapped();
  for (Chunk* chunk = slab->first_; chunk != nullptr; chunk = space_.right_of(chunk)) {
    space_.set_tag(chunk, [mapped](SlabTag& tag) {
      tag.mapped = mapped;
      // A slab is unmapped when everything has passed.
      if (!mapped) tag.pending.clear();
    });
  }
}

void Slabs::validate() const {
  space_.validate();
  buffers_.validate();
  Bytes bytes = 0;
  std::size_t live = 0;
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
    live += buffer != nullptr ? 1 : 0;
    bytes += chunk.size() * kGranule;
  });
  THERMOCLINE_CHECK(live == buffers_.size(), "Only live buffers are found.");
  THERMOCLINE_CHECK(bytes == bytes_, "Chunks cover their slabs.");
}

}  // namespace thermocline
