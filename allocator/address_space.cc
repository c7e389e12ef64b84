// SPDX-License-Identifier: Apache-2.0
#include "allocator/address_space.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include <sys/mman.h>

#include "driver/check.h"

namespace thermocline {
namespace {

// At most this many free mapped chunks, the largest ones, are tried as a part of a partly mapped placement.
constexpr int kMostCandidates = 8;
// With this many times the addresses that may be live at once, free ones beside each other are found.
constexpr Bytes kAmple = 2;

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
  zone = Zone::kBlocks;
  mapped = false;
  guard = false;
  still_mapped = false;
  pending.clear();
  freed_at = 0;
}

Status AddressSpace::reserve(const Driver& driver, Bytes bytes, Bytes at_least, Bytes page_bytes,
                             std::unique_ptr<AddressSpace>* out) {
  THERMOCLINE_CHECK(page_bytes != 0, "A page has a size.");
  // One page is never handed out.
  at_least = round_up(std::max(at_least, page_bytes), page_bytes) + page_bytes;
  bytes = round_up(std::max(bytes, at_least), page_bytes);
  const Bytes wanted = bytes;
  DeviceAddress begin;
  Status status = driver.reserve(bytes, page_bytes, &begin);
  while (!status.ok() && bytes > at_least) {
    bytes = std::max(at_least, round_up(bytes / 2, page_bytes));
    status = driver.reserve(bytes, page_bytes, &begin);
  }
  if (!status.ok()) return status;
  // Addresses are scarce: half is left to the program, if what remains is enough in spite of fragmentation. Space that
  // the driver does not release is kept whole: it would be lost.
  if (bytes < wanted && bytes / 2 / kAmple >= at_least && driver.release(begin, bytes).ok()) {
    bytes = round_up(bytes / 2, page_bytes);
    status = driver.reserve(bytes, page_bytes, &begin);
    if (!status.ok()) return status;
  }
  std::unique_ptr<AddressSpace> space(new AddressSpace(ReservationOwner(driver, begin, bytes), at_least, page_bytes));
  if (!space->allocate_tables()) return Status::out_of_memory();
  *out = std::move(space);
  return Status();
}

AddressSpace::AddressSpace(ReservationOwner owner, Bytes at_least, Bytes page_bytes)
    : owner_(std::move(owner)),
      page_bytes_(page_bytes),
      page_shift_(std::countr_zero(page_bytes)),
      pages_(owner_.bytes() / page_bytes) {
  THERMOCLINE_CHECK(std::has_single_bit(page_bytes), "Pages are of a power of two.");
  // A small reservation is not divided between the zones.
  const std::uint64_t slab_pages = owner_.bytes() >= 8 * at_least ? pages_ / 4 : 0;
  SpaceTag tag;
  space_.add_range(1, pages_ - slab_pages - 1, tag);
  tag.zone = Zone::kSlabs;
  if (slab_pages != 0) space_.add_range(pages_ - slab_pages, slab_pages, tag);
}

std::uint64_t AddressSpace::largest_open_pages() const {
  std::uint64_t largest = 0, run = 0;
  space_.for_each([&](const Chunk& chunk) {
    run = is_open(&chunk) ? (chunk.begins_range() ? 0 : run) + chunk.size() : 0;
    largest = std::max(largest, run);
  });
  return largest;
}

bool AddressSpace::allocate_tables() {
  blocks_ = static_cast<Block**>(zeroed_table(pages_ * sizeof(Block*)));
  handles_ = static_cast<PageHandle*>(zeroed_table(pages_ * sizeof(PageHandle)));
  freed_at_ = static_cast<FreeTime*>(zeroed_table(pages_ * sizeof(FreeTime)));
  return blocks_ != nullptr && handles_ != nullptr && freed_at_ != nullptr;
}

AddressSpace::~AddressSpace() {
  if (blocks_ != nullptr) munmap(blocks_, pages_ * sizeof(Block*));
  if (handles_ != nullptr) munmap(handles_, pages_ * sizeof(PageHandle));
  if (freed_at_ != nullptr) munmap(freed_at_, pages_ * sizeof(FreeTime));
}

std::uint64_t AddressSpace::free_mapped_pages() const {
  std::uint64_t pages = 0;
  for (const unsigned shelf : kMappedShelves) pages += space_.free_size(shelf);
  return pages;
}

AddressSpace::FreeRun AddressSpace::place_around(Chunk* candidate, std::uint64_t pages) {
  FreeRun place{candidate, candidate->size(), candidate->size()};
  const auto extend = [&place, pages](const Chunk* with) {
    if (with->tag.mapped) place.mapped += std::min(with->size(), pages - place.size);
    place.size += with->size();
  };
  for (Chunk* right = space_.right_of(candidate); place.size < pages && is_open(right);
       right = space_.right_of(right)) {
    extend(right);
  }
  for (Chunk* left = space_.left_of(candidate); place.size < pages && is_open(left); left = space_.left_of(left)) {
    extend(left);
    place.first = left;
  }
  return place;
}

AddressSpace::Chunk* AddressSpace::take_partly_mapped(std::uint64_t pages, Zone zone) {
  const Space::Shelf& mapped = space_.shelf(SpaceTag::shelf_of(zone, true));
  FreeRun best;
  const Chunk* around = nullptr;
  int tried = 0;
  mapped.each_from_largest([&](Chunk& candidate) {
    const FreeRun place = place_around(&candidate, pages);
    if (place.size >= pages && place.mapped > best.mapped) {
      best = place;
      around = &candidate;
    }
    return ++tried < kMostCandidates;
  });
  if (around == nullptr) return nullptr;
  // The surplus is cut off on the left, unless the left end belongs to the candidate.
  const std::uint64_t spare = best.first == around ? 0 : std::min(best.size - pages, best.first->size() - 1);
  return space_.take(best.first, best.first->offset() + spare, pages);
}

// The usual case: a block that was allocated with a guard and then freed leaves free mapped space with one page of
// unmapped addresses behind it. A block of the same size fits there exactly.
AddressSpace::Chunk* AddressSpace::take_before_unmapped(std::uint64_t pages, Zone zone) {
  const Space::Shelf& mapped = space_.shelf(SpaceTag::shelf_of(zone, true));
  int tried = 0;
  Chunk* fit = nullptr;
  mapped.each_of(pages, [&](Chunk& candidate) {
    if (is_open(space_.right_of(&candidate))) fit = &candidate;
    return fit == nullptr && ++tried < kMostCandidates;
  });
  return fit == nullptr ? nullptr : space_.take(fit, fit->offset(), pages + 1);
}

// With a page for the guard.
inline AddressSpace::Chunk* AddressSpace::find_mapped(std::uint64_t pages, Zone zone, bool guarded) {
  if (guarded) {
    if (Chunk* chunk = take_before_unmapped(pages, zone); chunk != nullptr) return chunk;
    ++pages;
  }
  Chunk* const fit = space_.best_fit(SpaceTag::shelf_of(zone, true), pages);
  return fit == nullptr ? nullptr : space_.take(fit, fit->offset(), pages);
}

AddressSpace::Chunk* AddressSpace::take_in(std::uint64_t pages, Zone zone, bool guarded) {
  if (Chunk* chunk = find_mapped(pages, zone, guarded); chunk != nullptr) return chunk;
  if (guarded) ++pages;
  if (Chunk* chunk = take_partly_mapped(pages, zone); chunk != nullptr) {
    chunk->tag.mapped = false;
    return chunk;
  }
  // Leaves one page of addresses more than the guard needs, so that the space of one freed buffer can later be divided
  // between two buffers with guards.
  if (guarded) {
    Chunk* const wider = space_.best_fit(SpaceTag::shelf_of(zone, false), pages + 1);
    if (wider != nullptr) return space_.take(wider, wider->offset() + 1, pages);
  }
  Chunk* const unmapped = space_.best_fit(SpaceTag::shelf_of(zone, false), pages);
  return unmapped != nullptr ? space_.take(unmapped, unmapped->offset(), pages) : nullptr;
}

void AddressSpace::lay_guard(Chunk* chunk) {
  Chunk* const guard = space_.split(chunk, chunk->size() - 1);
  guard->tag.guard = true;
  guard->tag.mapped = handles_[guard->offset()] != PageHandle{};
  if (guard->tag.mapped) {
    space_.give(guard);
  } else {
    guard->tag.pending.clear();
  }
}

inline AddressSpace::Chunk* AddressSpace::taken(Chunk* chunk, bool guarded) {
  if (chunk == nullptr) return nullptr;
  std::uint64_t& used_end = used_end_[chunk->tag.zone == Zone::kSlabs];
  used_end = std::max(used_end, chunk->end());
  if (guarded) lay_guard(chunk);
  return chunk;
}

AddressSpace::Chunk* AddressSpace::take(std::uint64_t pages, Zone zone, bool guarded) {
  Chunk* chunk = take_in(pages, zone, guarded);
  if (chunk == nullptr) chunk = take_in(pages, zone == Zone::kBlocks ? Zone::kSlabs : Zone::kBlocks, guarded);
  return taken(chunk, guarded);
}

AddressSpace::Chunk* AddressSpace::take_mapped(std::uint64_t pages, Zone zone, bool guarded) {
  return taken(find_mapped(pages, zone, guarded), guarded);
}

void AddressSpace::give_guard(Chunk* guard, FreeTime now) {
  if (guard->is_free()) guard = space_.take(guard, guard->offset(), guard->size());
  guard->tag.guard = false;
  guard->tag.freed_at = now;
  space_.give(guard);
}

void AddressSpace::give(Chunk* chunk, const UseSet& pending, std::span<const StaleRange> stale, bool all_mapped) {
  const FreeTime now = log_.add(pending);
  if (Chunk* const guard = guard_of(chunk); guard != nullptr) give_guard(guard, now);
  // The usual case of what follows.
  if (all_mapped && stale.empty()) {
    chunk->tag.mapped = true;
    chunk->tag.freed_at = now;
    chunk->tag.pending = pending;
    std::fill_n(freed_at_ + chunk->offset(), chunk->size(), now);
    space_.give(chunk);
    return;
  }
  std::uint64_t page = chunk->offset();
  const std::uint64_t end = chunk->end();
  while (page < end) {
    while (!stale.empty() && stale.front().end() <= page) stale = stale.subspan(1);
    const bool still_mapped = !stale.empty() && stale.front().first <= page;
    const std::uint64_t same_until = stale.empty() ? end : still_mapped ? stale.front().end() : stale.front().first;
    const bool mapped = handles_[page] != PageHandle{};
    THERMOCLINE_CHECK(!(still_mapped && mapped), "Stale addresses have no pages of their own.");
    std::uint64_t next = page + 1;
    while (next < std::min(end, same_until) && (handles_[next] != PageHandle{}) == mapped) ++next;
    Chunk* const rest = next < end ? space_.split(chunk, next - page) : nullptr;
    chunk->tag.mapped = mapped;
    chunk->tag.still_mapped = still_mapped;
    chunk->tag.freed_at = now;
    if (mapped) std::fill(freed_at_ + page, freed_at_ + next, now);
    chunk->tag.pending.clear();
    if (mapped) chunk->tag.pending.join(pending);
    if (still_mapped) chunk->tag.pending.join(stale.front().pending);

    space_.give(chunk);
    chunk = rest;
    page = next;
  }
}

void AddressSpace::validate() const {
  space_.validate();
  std::unordered_set<std::uint64_t> physical;
  std::uint64_t free_mapped = 0;
  const Chunk* left = nullptr;
  space_.for_each([&](const Chunk& chunk) {
    chunk.tag.pending.validate();
    free_mapped += chunk.is_free() && chunk.tag.mapped ? chunk.size() : 0;
    if (chunk.tag.guard) {
      THERMOCLINE_CHECK((chunk.is_free() || !chunk.tag.mapped) && chunk.size() == 1,
                        "A guard is one page that nobody uses.");
      THERMOCLINE_CHECK(left != nullptr && !left->is_free() && left->end() == chunk.offset() &&
                            blocks_[chunk.offset()] == blocks_[left->offset()],
                        "A guard belongs to the block on its left.");
    }
    left = &chunk;
    THERMOCLINE_CHECK(!chunk.tag.still_mapped || (chunk.is_free() && !chunk.tag.mapped),
                      "What is still mapped is free and has no pages of its own.");
    if ((chunk.is_free() || chunk.tag.guard) && !chunk.tag.mapped) {
      THERMOCLINE_CHECK(chunk.tag.still_mapped || chunk.tag.pending.empty(),
                        "Nothing is pending on free addresses without pages.");
      // Addresses that were never handed out are skipped: their table entries have never been written, so reading them
      // would only page them in.
      if (chunk.tag.freed_at == 0 && !chunk.tag.guard) return;
    }
    // The never used end of a range merges with space that is freed beside it; skip that part as well.
    const std::uint64_t end =
        chunk.is_free() ? std::min(chunk.end(), used_end_[chunk.tag.zone == Zone::kSlabs]) : chunk.end();
    for (std::uint64_t page = chunk.offset(); page < end; ++page) {
      const bool mapped = handles_[page] != PageHandle{};
      if (chunk.is_free() || chunk.tag.guard) {
        THERMOCLINE_CHECK(mapped == chunk.tag.mapped, "A free chunk is mapped throughout or not at all.");
      }
      THERMOCLINE_CHECK((blocks_[page] == nullptr) == (chunk.is_free() && !chunk.tag.guard),
                        "Addresses in use, and no others, have a block.");
      if (mapped) {
        const bool fresh = physical.insert(static_cast<std::uint64_t>(handles_[page])).second;
        THERMOCLINE_CHECK(fresh, "A physical page stands behind one address.");
      }
    }
  });
  THERMOCLINE_CHECK(free_mapped == free_mapped_pages(), "The pages of free mapped space are counted.");
}

}  // namespace thermocline
