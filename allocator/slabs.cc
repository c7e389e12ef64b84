// SPDX-License-Identifier: Apache-2.0
#include "allocator/slabs.h"

#include <algorithm>

#include "driver/check.h"

namespace thermocline {

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
  return true;
}

void Slabs::remove(Buffer* buffer) {
  Chunk* const chunk = buffer->chunk_;
  THERMOCLINE_CHECK(chunk != nullptr && !chunk->is_free(), "A buffer is freed once.");
  buffer->chunk_ = nullptr;
  chunk->tag.pending.join(buffer->block_->uses);
  space_.give(chunk);
}

void Slabs::add(Block* slab) {
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
  Bytes bytes = 0;
  space_.for_each([&bytes](const Chunk& chunk) {
    const Block* const block = chunk.tag.block;
    THERMOCLINE_CHECK(block != nullptr && block->is_slab(), "A chunk of a slab has its block.");
    THERMOCLINE_CHECK(chunk.tag.mapped == block->mapped(), "A slab's chunks are mapped when the slab is.");
    THERMOCLINE_CHECK(block->begin().value <= chunk.offset() * kGranule && chunk.end() * kGranule <= block->end().value,
                      "A slab's chunks lie in it.");
    const auto buffer = block->buffers().find(chunk.offset() * kGranule);
    const bool lives = buffer != block->buffers().end();
    THERMOCLINE_CHECK(lives == !chunk.is_free(), "A chunk in use is a live buffer.");
    THERMOCLINE_CHECK(!lives || (buffer->chunk_ == &chunk && buffer->requested() <= chunk.size() * kGranule),
                      "A buffer fits its chunk.");
    bytes += chunk.size() * kGranule;
  });
  THERMOCLINE_CHECK(bytes == bytes_, "Chunks cover their slabs.");
}

}  // namespace thermocline
