// SPDX-License-Identifier: Apache-2.0
#include "allocator/address_space.h"

#include <algorithm>
#include <unordered_set>

#include <sys/mman.h>

#include "driver/check.h"

namespace thermocline {
namespace {

// How many free mapped chunks, from the largest, are tried as the beginning of a partly mapped place.
constexpr int kMostCandidates = 8;

void* zeroed_table(std::uint64_t bytes) {
  void* table = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return table == MAP_FAILED ? nullptr : table;
}

}  // namespace

void SpaceTag::join(const SpaceTag& right) {
  pending.join(right.pending);
  freed_at = std::max(freed_at, right.freed_at);
}

void SpaceTag::clear() {
  mapped = false;
  pending.clear();
  freed_at = 0;
}

Status AddressSpace::reserve(const Driver& driver, Bytes bytes, Bytes at_least, Bytes page_bytes,
                             std::unique_ptr<AddressSpace>* out) {
  THERMOCLINE_CHECK(page_bytes != 0, "A page has a size.");
  at_least = round_up(std::max(at_least, page_bytes), page_bytes);
  bytes = round_up(std::max(bytes, at_least), page_bytes);
  DeviceAddress begin;
  Status status = driver.reserve(bytes, page_bytes, &begin);
  while (!status.ok() && bytes / 2 >= at_least) {
    bytes = round_up(bytes / 2, page_bytes);
    status = driver.reserve(bytes, page_bytes, &begin);
  }
  if (!status.ok()) return status;
  std::unique_ptr<AddressSpace> space(new AddressSpace(ReservationOwner(driver, begin, bytes), page_bytes));
  if (!space->allocate_tables()) return Status::out_of_memory();
  *out = std::move(space);
  return Status();
}

AddressSpace::AddressSpace(ReservationOwner owner, Bytes page_bytes)
    : owner_(std::move(owner)), page_bytes_(page_bytes), pages_(owner_.bytes() / page_bytes) {
  space_.add_range(0, pages_, SpaceTag());
}

bool AddressSpace::allocate_tables() {
  blocks_ = static_cast<Block**>(zeroed_table(pages_ * sizeof(Block*)));
  handles_ = static_cast<PageHandle*>(zeroed_table(pages_ * sizeof(PageHandle)));
  return blocks_ != nullptr && handles_ != nullptr;
}

AddressSpace::~AddressSpace() {
  if (blocks_ != nullptr) munmap(blocks_, pages_ * sizeof(Block*));
  if (handles_ != nullptr) munmap(handles_, pages_ * sizeof(PageHandle));
}

AddressSpace::Chunk* AddressSpace::take_partly_mapped(std::uint64_t pages) {
  const Space::Shelf& mapped = space_.shelf(kMappedShelf);
  int tried = 0;
  for (auto at = mapped.rbegin(); at != mapped.rend() && tried < kMostCandidates; ++at, ++tried) {
    Chunk* const candidate = const_cast<Chunk*>(&*at);
    std::uint64_t size = candidate->size();
    for (Chunk* right = space_.right_of(candidate); size < pages && right != nullptr && right->is_free();
         right = space_.right_of(right)) {
      size += right->size();
    }
    Chunk* first = candidate;
    for (Chunk* left = space_.left_of(candidate); size < pages && left != nullptr && left->is_free();
         left = space_.left_of(left)) {
      size += left->size();
      first = left;
    }
    if (size < pages) continue;
    // What is too much is left over on the left, where it is not the candidate's.
    const std::uint64_t spare = first == candidate ? 0 : std::min(size - pages, first->size() - 1);
    return space_.take(first, first->offset() + spare, pages);
  }
  return nullptr;
}

AddressSpace::Chunk* AddressSpace::take(std::uint64_t pages) {
  Chunk* chunk = nullptr;
  if (Chunk* fit = space_.best_fit(kMappedShelf, pages); fit != nullptr) {
    chunk = space_.take(fit, fit->offset(), pages);
  } else {
    chunk = take_partly_mapped(pages);
  }
  if (chunk == nullptr) {
    Chunk* const unmapped = space_.best_fit(kUnmappedShelf, pages);
    if (unmapped == nullptr) return nullptr;
    chunk = space_.take(unmapped, unmapped->offset(), pages);
  }
  used_pages_ = std::max(used_pages_, chunk->end());
  return chunk;
}

void AddressSpace::give(Chunk* chunk, const UseSet& pending) {
  ++frees_;
  std::uint64_t page = chunk->offset();
  const std::uint64_t end = chunk->end();
  while (page < end) {
    const bool mapped = handles_[page] != PageHandle{};
    std::uint64_t next = page + 1;
    while (next < end && (handles_[next] != PageHandle{}) == mapped) ++next;
    Chunk* const rest = next < end ? space_.split(chunk, next - page) : nullptr;
    chunk->tag.mapped = mapped;
    chunk->tag.freed_at = frees_;
    chunk->tag.pending.clear();
    if (mapped) chunk->tag.pending.join(pending);
    space_.give(chunk);
    chunk = rest;
    page = next;
  }
}

void AddressSpace::validate() const {
  space_.validate();
  std::unordered_set<std::uint64_t> physical;
  space_.for_each([&](const Chunk& chunk) {
    if (chunk.offset() >= used_pages_) return;
    chunk.tag.pending.validate();
    THERMOCLINE_CHECK(chunk.tag.mapped || chunk.is_free() == false || chunk.tag.pending.empty(),
                      "Nothing is pending on free addresses without pages.");
    for (std::uint64_t page = chunk.offset(); page < chunk.end() && page < used_pages_; ++page) {
      const bool mapped = handles_[page] != PageHandle{};
      if (chunk.is_free()) {
        THERMOCLINE_CHECK(mapped == chunk.tag.mapped, "A free chunk is mapped throughout or not at all.");
        THERMOCLINE_CHECK(blocks_[page] == nullptr, "Free addresses belong to no block.");
      } else {
        THERMOCLINE_CHECK(blocks_[page] != nullptr, "Addresses in use belong to a block.");
      }
      if (mapped) {
        const bool fresh = physical.insert(static_cast<std::uint64_t>(handles_[page])).second;
        THERMOCLINE_CHECK(fresh, "A physical page stands behind one address.");
      }
    }
  });
}

}  // namespace thermocline
