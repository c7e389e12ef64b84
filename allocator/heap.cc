// SPDX-License-Identifier: Apache-2.0
#include "allocator/heap.h"

#include <algorithm>

#include "allocator/slabs_inline.h"
#include "driver/check.h"

namespace thermocline {
namespace {

// Reusing the pages of free addresses costs driver calls; creating a page costs memory. At most one part in this many
// of the live bytes is spent to save calls.
constexpr Bytes kLivePerSlack = 34;
constexpr std::uint64_t kLeastSlackPages = 4;

}  // namespace

Status Heap::create(const Driver& driver, StreamClock& clock, const HeapOptions& options, std::unique_ptr<Heap>* out) {
  std::unique_ptr<AddressSpace> space;
  const Status status = AddressSpace::reserve(
      driver, options.reserve_bytes, std::min(options.reserve_bytes, options.limit), options.page_bytes, &space);
  if (!status.ok()) return status;
  out->reset(new Heap(driver, clock, options, std::move(space)));
  return Status();
}

Heap::Heap(const Driver& driver, StreamClock& clock, const HeapOptions& options, std::unique_ptr<AddressSpace> space)
    : options_(options),
      space_(std::move(space)),
      pool_(driver, options.device, options.page_bytes, options.limit),
      backing_(std::make_unique<Backing>(driver, clock, options.device, *space_, pool_, options.may_alias)),
      slabs_(options.slab_bytes, options.page_bytes, options.apart, buffer_objects_) {}

Heap::~Heap() = default;

// Inline, like the two that follow: whole pages come and go by them.
[[gnu::always_inline]] inline Block* Heap::begin_block(AddressSpace::Chunk* chunk, bool guarded) {
  Block* const block = block_objects_.take();
  const std::uint64_t first = chunk->offset(), pages = chunk->size();
  block->begin_ = space_->address_of(first);
  block->pages_ = pages;
  block->page_bytes_ = options_.page_bytes;
  block->handles_ = space_->handles() + first;
  block->mapped_pages_ = pages;
  if (!chunk->tag.mapped)
    block->mapped_pages_ -=
        static_cast<std::uint64_t>(std::count(block->handles_, block->handles_ + pages, PageHandle{}));
  block->chunk_ = chunk;
  block->is_slab_ = false;
  block->is_vacant_ = false;
  block->sole_ = nullptr;
  block->live_buffers_ = 0;
  block->live_bytes_ = 0;
  block->uses = chunk->tag.pending;
  chunk->tag.pending.clear();
  std::fill_n(space_->blocks() + first, pages + (guarded ? 1 : 0), block);
  block->serial_ = ++last_serial_;
  if (free_indices_.empty()) {
    block->index_ = static_cast<std::uint32_t>(blocks_.size());
    blocks_.push_back(block);
    free_indices_.reserve(blocks_.size());
  } else {
    block->index_ = free_indices_.back();
    free_indices_.pop_back();
    blocks_[block->index_] = block;
  }
  return block;
}

[[gnu::always_inline]] inline void Heap::end_block(Block* block) {
  std::fill_n(space_->blocks() + block->chunk_->offset(), space_->pages_with_guard(block->chunk_), nullptr);
  backing_->forget_assigned_pages(*block);
  if (backing_->may_have_stale()) [[unlikely]] {
    space_->give(block->chunk_, block->uses, backing_->take_stale(*block), block->mapped());
  } else {
    space_->give(block->chunk_, block->uses, {}, block->mapped());
  }
  block->uses.clear();
  block->chunk_ = nullptr;
  blocks_[block->index_] = nullptr;
  free_indices_.push_back(block->index_);
  block_objects_.give(block);
}

// The buffer that a block consists of.
inline Buffer* Heap::fill_block(Block* block) {
  if (block == nullptr) return nullptr;
  Buffer* const buffer = buffer_objects_.take();
  buffer->address_ = block->begin();
  buffer->block_ = block;
  buffer->granules_ = 0;
  buffer->left_ = buffer->right_ = nullptr;
  buffer->former = block->uses;
  return buffer;
}

Status Heap::allocate(Bytes requested, StreamIndex hint, Buffer** out, Block* vacant) {
  if (requested == 0) return Status::invalid_value();
  if (requested > space_->bytes()) return Status::out_of_memory();
  Buffer* const buffer = owns_pages(requested) ? place_in_pages(requested, vacant) : place_in_slab(requested, vacant);
  if (buffer == nullptr) return Status::out_of_memory();
  if (buffer->block_->is_slab_) {
    count_in<true>(buffer, requested, hint);
  } else {
    count_in<false>(buffer, requested, hint);
  }
  *out = buffer;
  return Status();
}

Buffer* Heap::place_in_pages(Bytes requested, Block* vacant) {
  const auto [pages, guarded] = footprint_of(requested);
  return fill_block(new_block(pages, Zone::kBlocks, guarded, vacant));
}

Buffer* Heap::allocate_in_mapped_slab(Bytes requested, StreamIndex hint) {
  if (requested == 0) return nullptr;
  Buffer* const buffer = slabs_.place_inline(requested, true);
  if (buffer != nullptr) count_in<true>(buffer, requested, hint);
  return buffer;
}

void Heap::free_beside_others(Buffer* buffer, std::uint64_t window) {
  count_out<true>(*buffer);
  slabs_.remove_inline(buffer, window);
}

Buffer* Heap::allocate_in_mapped_pages(Bytes requested, StreamIndex hint) {
  const auto [pages, guarded] = footprint_of(requested);
  AddressSpace::Chunk* const chunk = space_->take_mapped(pages, Zone::kBlocks, guarded);
  if (chunk == nullptr) return nullptr;
  Buffer* const buffer = fill_block(begin_block(chunk, guarded));
  count_in<false>(buffer, requested, hint);
  return buffer;
}

Buffer* Heap::place_in_slab(Bytes requested, Block* vacant) {
  if (Buffer* buffer = slabs_.place(requested); buffer != nullptr) return buffer;
  Block* const slab = new_block(slabs_.size_for(requested) / options_.page_bytes, Zone::kSlabs, true, vacant);
  if (slab == nullptr) return nullptr;
  slab->is_slab_ = true;
  try {
    slabs_.add(slab, slabs_.kind_of(requested));
  } catch (...) {
    slab->is_slab_ = false;
    end_block(slab);
    throw;
  }
  Buffer* const buffer = slabs_.place(requested);
  THERMOCLINE_CHECK(buffer != nullptr, "A new slab has room for the buffer it was made for.");
  return buffer;
}

Block* Heap::new_block(std::uint64_t pages, Zone zone, bool guarded, Block* vacant) {
  if (revive(vacant, pages, guarded)) return vacant;
  AddressSpace::Chunk* const chunk = space_->take(pages, zone, guarded);
  return chunk == nullptr ? nullptr : begin_block(chunk, guarded);
}

inline void Heap::end_buffer(Buffer* buffer) {
  THERMOCLINE_CHECK(buffer->block_ != nullptr && !buffer->is_hole_, "A buffer is freed once.");
  if (buffer->block_->is_slab_) {
    count_out<true>(*buffer);
    return slabs_.remove(buffer);
  }
  count_out<false>(*buffer);
  buffer->block_ = nullptr;
  buffer_objects_.give(buffer);
}

void Heap::free_owner(Buffer* buffer) {
  Block* const block = buffer->block_;
  THERMOCLINE_CHECK(block->sole_ == buffer, "A buffer is freed once.");
  count_out<false>(*buffer);
  buffer->block_ = nullptr;
  buffer_objects_.give(buffer);
  end_block(block);
}

bool Heap::free(Buffer* buffer) {
  Block* const block = buffer->block_;
  end_buffer(buffer);
  if (block->live_buffers_ != 0) return false;
  if (block->is_slab_) slabs_.drop(block);
  end_block(block);
  return true;
}

Block& Heap::vacate(Buffer* buffer) {
  Block* const block = buffer->block_;
  THERMOCLINE_CHECK(block->live_buffers_ == 1, "A block is vacated by its last buffer.");
  end_buffer(buffer);
  if (block->is_slab_) slabs_.drop(block);
  for (std::uint64_t page = 0; page < block->pages_;) {
    std::uint64_t end = page;
    while (end < block->pages_ && block->handles_[end] != PageHandle{}) ++end;
    if (end > page) backing_->give_up(*block, {page, end - page}, block->uses);
    page = end + 1;
  }
  block->sole_ = nullptr;
  block->is_slab_ = false;
  block->is_vacant_ = true;
  blocks_[block->index_] = nullptr;
  vacant_.insert(block);
  return *block;
}

// Puts the vacant block back in use, if it has the wanted size.
bool Heap::revive(Block* vacant, std::uint64_t pages, bool guarded) {
  if (vacant == nullptr || vacant->pages_ != pages) return false;
  THERMOCLINE_CHECK(vacant->is_vacant_, "What is handed out again was kept vacant.");
  if (guarded && space_->pages_with_guard(vacant->chunk_) == pages) return false;
  vacant->is_vacant_ = false;
  vacant_.erase(vacant);
  blocks_[vacant->index_] = vacant;
  vacant->serial_ = ++last_serial_;
  return true;
}

void Heap::dissolve(Block& vacant) {
  THERMOCLINE_CHECK(vacant.is_vacant_, "Only vacant blocks are dissolved.");
  vacant.is_vacant_ = false;
  vacant_.erase(&vacant);
  end_block(&vacant);
}

void Heap::renew(Buffer& buffer) {
  buffer.number_ = ++last_number_;
  ++renewals_;
  if (!buffer.block_->is_slab_) buffer.block_->serial_ = ++last_serial_;
}

// A block's contents end more than kMostElement before the next one (place_in_pages).
Block* Heap::block_meant_near_the_end(Block* here, DeviceAddress address) const {
  if (here != nullptr && (here->is_slab_ || address <= here->sole_->end())) return here;
  const DeviceAddress next{round_up(address.value + 1, page_bytes())};
  Block* const behind = block_at(next);
  return behind != nullptr && behind->begin() == next ? behind : here;
}

Buffer* Heap::buffer_in(Block* block, DeviceAddress address) const {
  if (block == nullptr) return nullptr;
  return block->is_slab_ ? Slabs::at_or_before(*block, address) : block->sole_;
}

Buffer* Heap::find(DeviceAddress address) const {
  // The last buffer of this block that begins at or below the address.
  Buffer* const here = buffer_in(block_at(address), address);
  if (here != nullptr && address <= here->end()) {
    return here;
  }
  if (here != nullptr || address.value == 0) return nullptr;
  // No buffer of this block begins at or below it: the address may be one past the end of the block before.
  Buffer* const before = buffer_in(block_at(address - 1), address);
  return before != nullptr && before->end() == address ? before : nullptr;
}

Buffer* Heap::begins_at(DeviceAddress address) const {
  Block* const block = block_at(address);
  if (block == nullptr) return nullptr;
  if (block->is_slab_) return block->table_.find(address);
  return block->begin() == address ? block->sole_ : nullptr;
}

MeantBuffers Heap::meant_by(DeviceAddress address) const {
  MeantBuffers meant{.within = find(address)};
  Buffer* const before = meant.within != nullptr && address == meant.within->address() ? meant.within->left_ : nullptr;
  if (before != nullptr && !before->is_hole_ && before->end() == address) meant.ended = before;
  const DeviceAddress next{round_up(address.value + 1, Slabs::kGranule)};
  if (next - address <= (meant.within != nullptr ? kMostElement : kMostBefore)) meant.behind = begins_at(next);
  return meant;
}

void Heap::for_each_block(const std::function<void(Block&)>& visit) const {
  space_->space().for_each([&](const AddressSpace::Chunk& chunk) {
    if (chunk.is_free() || chunk.tag.guard) return;
    Block* const block = space_->blocks()[chunk.offset()];
    if (!block->is_vacant_) visit(*block);
  });
}

std::uint64_t Heap::ample_pages() const {
  const Bytes slack = std::max(peak_live_bytes_ / kLivePerSlack, kLeastSlackPages * options_.page_bytes);
  return (peak_live_bytes_ + slack) / options_.page_bytes;
}

Status Heap::map(Block& block, PageRange range, Wait wait, UseSet* behind, bool* untouched) {
  const bool was_mapped = block.mapped();
  backing_->set_ample(ample_pages());
  const Status status = backing_->map(block, range, wait, behind, untouched);
  if (block.is_slab_ && block.mapped() != was_mapped) slabs_.mapped_changed(&block);
  return status;
}

Status Heap::unmap(Block& block, PageRange range) {
  const bool was_mapped = block.mapped();
  const Status status = backing_->unmap(block, range);
  if (block.is_slab_ && block.mapped() != was_mapped) slabs_.mapped_changed(&block);
  return status;
}

void Heap::give_up(Block& block, PageRange range, const UseSet& pending) {
  const bool was_mapped = block.mapped();
  backing_->give_up(block, range, pending);
  if (block.is_slab_ && block.mapped() != was_mapped) slabs_.mapped_changed(&block);
}

Status Heap::unmap(Block& block) {
  THERMOCLINE_CHECK(backing_->passed(block.uses), "A block is unmapped when everything that uses it has passed.");
  const Status status = unmap(block, {0, block.pages()});
  if (status.ok()) block.uses.clear();
  return status;
}

Bytes Heap::available_bytes(Wait wait) { return backing_->available_pages(wait) * options_.page_bytes; }

Status Heap::trim(Bytes keep, Wait wait) {
  if (const Status status = backing_->sweep_all(wait); !status.ok()) return status;
  if (backing_->has_stale_mappings()) return Status();  // it is not known which pages the stale mappings lead to
  if (const Status status = pool_.trim(keep); !status.ok()) return status;
  if (pool_.created_bytes() <= keep) return Status();
  const std::uint64_t excess = (pool_.created_bytes() - keep + options_.page_bytes - 1) / options_.page_bytes;
  if (const Status status = backing_->harvest(excess, wait); !status.ok()) return status;
  return pool_.trim(keep);
}

Status Heap::set_limit(Bytes limit, Wait wait) {
  const Bytes held = (backing_->mapped_pages() - space_->free_mapped_pages()) * options_.page_bytes;
  if (held > limit) return Status::out_of_memory();
  // Raising the limit needs no driver call and can not fail.
  if (pool_.created_bytes() > limit) {
    if (const Status status = trim(limit, wait); !status.ok()) return status;
  }
  return pool_.set_limit(limit) ? Status() : Status::out_of_memory();
}

void Heap::fold_classes(std::array<SizeClass, SizeClass::kCount>* out) const {
  for (unsigned width = 0; width < std::size(live_by_width_); ++width) {
    // The least size of the width, beside 1.
    SizeClass& of_class = (*out)[SizeClass::of((Bytes{1} << width) + 1)];
    of_class.live_bytes += live_by_width_[width];
    of_class.buffers += buffers_by_width_[width];
  }
}

HeapStatistics Heap::statistics() const {
  HeapStatistics s;
  s.live_bytes = live_bytes_;
  s.peak_live_bytes = peak_live_bytes_;
  s.mapped_bytes = mapped_bytes();
  s.peak_mapped_bytes = peak_mapped_bytes();
  s.created_bytes = created_bytes();
  s.peak_created_bytes = peak_created_bytes();
  s.free_mapped_bytes = free_mapped_bytes();
  s.slab_bytes = slabs_.bytes();
  s.slab_live_bytes = live_bytes_ - whole_pages_live_bytes_;
  s.buffers = buffers();
  fold_classes(&s.classes);
  s.blocks = block_objects_.taken() - vacant_.size();
  s.slabs = slabs_.count();
  s.allocations = last_number_ - renewals_;
  s.frees = s.allocations - buffers_;
  s.creates = pool_.creates();
  s.destroys = pool_.destroys();
  s.maps = backing_->maps();
  s.set_accesses = backing_->set_accesses();
  s.unmaps = backing_->unmaps();
  s.harvested_pages = backing_->harvested_pages();
  return s;
}

void Heap::reset_peaks() {
  peak_live_bytes_ = live_bytes_;
  pool_.reset_peak();
  backing_->reset_peak();
}

void Heap::validate_vacant() const {
  for (const Block* const block : vacant_) {
    THERMOCLINE_CHECK(block->is_vacant_ && block->live_buffers_ == 0 && block->mapped_pages_ == 0 && !block->is_slab_ &&
                          blocks_[block->index_] == nullptr && !block->chunk_->is_free(),
                      "A vacant block is a chunk in use that has neither buffer nor pages.");
  }
}

void Heap::validate_pages_of(const Block& block) const {
  THERMOCLINE_CHECK(!block.chunk_->is_free() && block.chunk_->size() == block.pages_ &&
                        space_->address_of(block.chunk_->offset()) == block.begin_,
                    "A block is a chunk in use.");
  std::uint64_t mapped = 0;
  for (std::uint64_t page = 0; page < block.pages_; ++page) {
    THERMOCLINE_CHECK(space_->blocks()[block.chunk_->offset() + page] == &block, "The page table leads to the block.");
    mapped += block.handles_[page] != PageHandle{} ? 1 : 0;
  }
  THERMOCLINE_CHECK(mapped == block.mapped_pages_, "A block counts its mapped pages.");
}

void Heap::validate() const {
  space_->validate();
  backing_->validate();
  slabs_.validate();
  Bytes live = 0;
  Bytes slab_live = 0;
  std::uint64_t buffers = 0;
  std::uint64_t blocks = 0;
  std::array<SizeClass, SizeClass::kCount> classes, folded;
  fold_classes(&folded);
  for (std::size_t index = 0; index < blocks_.size(); ++index) {
    const Block* const block = blocks_[index];
    if (block == nullptr) continue;
    ++blocks;
    THERMOCLINE_CHECK(block->index_ == index, "A block is found by its index.");
    THERMOCLINE_CHECK(block->live_buffers_ > 0, "A block has live buffers.");
    THERMOCLINE_CHECK(block->is_slab_ == (block->sole_ == nullptr), "A block is a slab's or one buffer's.");
    THERMOCLINE_CHECK(block->is_slab_ || block->live_buffers_ == 1, "Whole pages belong to one buffer.");
    validate_pages_of(*block);
    block->uses.validate();
    Bytes block_live = 0;
    DeviceAddress end = block->begin_;
    std::uint32_t counted = 0;
    for_each_buffer(*block, [&](const Buffer& buffer) {
      ++counted;
      THERMOCLINE_CHECK(buffer.block_ == block && buffer.address_ >= end, "Buffers of a block do not overlap.");
      block_live += buffer.requested_;
      classes[SizeClass::of(buffer.requested_)].live_bytes += buffer.requested_;
      ++classes[SizeClass::of(buffer.requested_)].buffers;
      end = buffer.end();
    });
    THERMOCLINE_CHECK(counted == block->live_buffers_, "A block counts its buffers.");
    const bool has_guard = space_->pages_with_guard(block->chunk_) > block->pages_;
    THERMOCLINE_CHECK(has_guard || block->end() - end > kMostElement,
                      "What is just before a block is in no buffer (block_meant_by).");
    THERMOCLINE_CHECK(end == block->begin_ + block->contents_end(), "The last buffer is found.");
    THERMOCLINE_CHECK(end <= block->end(), "Buffers end in their block.");
    THERMOCLINE_CHECK(block_at(end) == block, "One past the end of a buffer is an address of its block.");
    THERMOCLINE_CHECK(block_live == block->live_bytes_, "A block's live bytes are its buffers'.");
    live += block_live;
    slab_live += block->is_slab_ ? block_live : 0;
    buffers += block->live_buffers_;
  }
  validate_vacant();
  THERMOCLINE_CHECK(live == live_bytes_ && slab_live == live_bytes_ - whole_pages_live_bytes_,
                    "Live bytes are the sum over live buffers.");
  THERMOCLINE_CHECK(buffers + slabs_.holes() == buffer_objects_.taken() && buffers == this->buffers() &&
                        blocks + vacant_.size() == block_objects_.taken(),
                    "Every object is in its place.");
  for (unsigned i = 0; i < SizeClass::kCount; ++i) {
    THERMOCLINE_CHECK(classes[i].live_bytes == folded[i].live_bytes && classes[i].buffers == folded[i].buffers,
                      "A size class is the sum of its live buffers.");
  }
}

}  // namespace thermocline
