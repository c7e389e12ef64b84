// SPDX-License-Identifier: Apache-2.0
#include "allocator/backing.h"

#include <algorithm>

#include "driver/check.h"

namespace thermocline {
namespace {

// Guards may keep one in so many created pages: below that, a page that goes from guard to guard as a program's phases
// alternate would cost driver calls in every step.
constexpr std::uint64_t kCreatedPerGuard = 256;

}  // namespace

Backing::~Backing() {
  // Neighbouring chunks go together: a call costs the same whatever its length.
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  space_->space().for_each([&](const Chunk& chunk) {
    if (chunk.is_free() && !chunk.tag.mapped) return;
    for (std::uint64_t page = chunk.offset(); page < chunk.end(); ++page) {
      if (space_->handles()[page] == PageHandle{}) continue;
      if (page != end) {
        if (end > first) static_cast<void>(unmap_pages(first, end - first));
        first = page;
      }
      end = page + 1;
    }
  });
  if (end > first) static_cast<void>(unmap_pages(first, end - first));
}

std::uint64_t Backing::passed_free_pages() {
  std::uint64_t pages = 0;
  space_->for_each_free_mapped([&](const Chunk& chunk) {
    if (clock_->passed(chunk.tag.pending)) pages += chunk.size();
  });
  return pages;
}

std::uint64_t Backing::available_pages(Wait wait) {
  const std::uint64_t harvestable = wait == Wait::kYes ? space_->free_mapped_pages() : passed_free_pages();
  return pool_->free_pages() + pool_->creatable_pages() + harvestable;
}

Status Backing::gather(std::uint64_t count, Wait wait) {
  if (pool_->free_pages() >= count) return Status();
  const std::uint64_t missing = count - pool_->free_pages();
  const std::uint64_t creatable = pool_->creatable_pages();
  // Before anything is touched: is there enough?
  if (missing > creatable &&
      missing - creatable > (wait == Wait::kYes ? space_->free_mapped_pages() : passed_free_pages())) {
    return Status::out_of_memory();
  }
  // Nobody can be handed what stands behind a guard: it serves before more is created.
  if (space_->mapped_guards() * kCreatedPerGuard > pool_->created_pages()) {
    if (const Status status = harvest_guards(missing); !status.ok()) return status;
    if (pool_->free_pages() >= count) return Status();
  }
  // The device may hold less than the limit, because others use it too.
  const Status created = pool_->create(count - pool_->free_pages());
  if (!created.ok() && !created.is_out_of_memory()) return created;
  if (pool_->free_pages() < count) {
    if (const Status status = harvest(count - pool_->free_pages(), wait); !status.ok()) return status;
  }
  return pool_->free_pages() >= count ? Status() : Status::out_of_memory();
}

Status Backing::harvest(std::uint64_t count, Wait wait) {
  candidates_.clear();
  space_->for_each_free_mapped([this](Chunk& chunk) { candidates_.push_back(&chunk); });
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Chunk* a, const Chunk* b) { return a->tag.freed_at < b->tag.freed_at; });
  for (Chunk*& chunk : candidates_) {
    if (count == 0) return Status();
    if (!clock_->passed(chunk->tag.pending)) continue;
    const std::uint64_t pages = std::min(count, chunk->size());
    if (const Status status = harvest_chunk(chunk, pages); !status.ok()) return status;
    count -= pages;
    chunk = nullptr;
  }
  if (wait == Wait::kNo) return Status();
  for (Chunk* chunk : candidates_) {
    if (count == 0) return Status();
    if (chunk == nullptr) continue;
    if (const Status status = clock_->synchronize(chunk->tag.pending); !status.ok()) return status;
    const std::uint64_t pages = std::min(count, chunk->size());
    if (const Status status = harvest_chunk(chunk, pages); !status.ok()) return status;
    count -= pages;
  }
  return Status();
}

Status Backing::harvest_guards(std::uint64_t count) {
  candidates_.clear();
  space_->for_each_mapped_guard([this](Chunk& guard) { candidates_.push_back(&guard); });
  for (Chunk* guard : candidates_) {
    if (count == 0) break;
    if (!clock_->passed(guard->tag.pending)) continue;
    if (const Status status = harvest_chunk(guard, 1); !status.ok()) return status;
    --count;
  }
  return Status();
}

Status Backing::harvest_chunk(Chunk* chunk, std::uint64_t count) {
  AddressSpace::Space& space = space_->space();
  // From the side that touches unmapped space, so that addresses without pages grow together.
  Chunk* const left = space.left_of(chunk);
  Chunk* const right = space.right_of(chunk);
  const bool from_left = AddressSpace::is_open(left) && !AddressSpace::is_open(right);
  Chunk* const taken = space.take(chunk, from_left ? chunk->offset() : chunk->end() - count, count);
  const Status status = unmap_pages(taken->offset(), count);
  if (status.ok()) {
    taken->tag.mapped = false;
    taken->tag.pending.clear();
    harvested_pages_ += count;
  }
  space.give(taken);
  return status;
}

Status Backing::unmap_pages(std::uint64_t first, std::uint64_t count) {
  const Status status = driver_->unmap(space_->address_of(first), count * space_->page_bytes());
  if (!status.ok()) return status;
  ++unmaps_;
  mapped_pages_ -= count;
  for (std::uint64_t page = first; page < first + count; ++page) {
    pool_->give(space_->handles()[page]);
    space_->handles()[page] = PageHandle{};
  }
  return Status();
}

Status Backing::map(Block& block, Wait wait) {
  if (block.mapped()) return Status();
  const std::uint64_t missing = block.pages() - block.mapped_pages();
  if (const Status status = gather(missing, wait); !status.ok()) return status;
  taken_.clear();
  if (const Status status = pool_->take(missing, &taken_); !status.ok()) return status;
  const Status status = map_missing(block, taken_);
  if (!status.ok()) {
    for (const PageHandle page : taken_) pool_->give(page);
    return status;
  }
  block.mapped_pages_ = block.pages_;
  mapped_pages_ += missing;
  peak_mapped_pages_ = std::max(peak_mapped_pages_, mapped_pages_);
  return Status();
}

Status Backing::map_missing(Block& block, const std::vector<PageHandle>& pages) {
  const Bytes page_bytes = space_->page_bytes();
  std::vector<std::uint64_t> done;
  done.reserve(pages.size());
  Status status;
  for (std::uint64_t page = 0; page < block.pages() && status.ok(); ++page) {
    if (block.handles_[page] != PageHandle{}) continue;
    status = driver_->map(block.begin() + page * page_bytes, page_bytes, pages[done.size()]);
    if (!status.ok()) break;
    ++maps_;
    block.handles_[page] = pages[done.size()];
    done.push_back(page);
  }
  THERMOCLINE_CHECK(!status.ok() || done.size() == pages.size(), "As many pages are mapped as were missing.");
  if (status.ok()) {
    // Pages between the first and the last new one are mapped too, so one call does.
    const std::uint64_t first = done.front();
    const std::uint64_t count = done.back() - first + 1;
    status = driver_->set_access(block.begin() + first * page_bytes, count * page_bytes, device_);
    if (status.ok()) {
      ++set_accesses_;
      return status;
    }
  }
  for (const std::uint64_t page : done) {
    const Status undone = driver_->unmap(block.begin() + page * page_bytes, page_bytes);
    THERMOCLINE_CHECK(undone.ok(), "What was just mapped can be unmapped.");
    ++unmaps_;
    block.handles_[page] = PageHandle{};
  }
  return status;
}

Status Backing::unmap(Block& block) {
  THERMOCLINE_CHECK(clock_->passed(block.uses), "A block is unmapped when everything that uses it has passed.");
  std::uint64_t page = 0;
  while (page < block.pages()) {
    std::uint64_t end = page;
    while (end < block.pages() && block.handles_[end] != PageHandle{}) ++end;
    if (end > page) {
      const std::uint64_t first = space_->page_of(block.begin()) + page;
      if (const Status status = unmap_pages(first, end - page); !status.ok()) return status;
      block.mapped_pages_ -= end - page;
    }
    page = end + 1;
  }
  block.uses.clear();
  return Status();
}

void Backing::validate() const {
  std::uint64_t mapped = 0;
  space_->space().for_each([&](const Chunk& chunk) {
    if (chunk.is_free()) {
      mapped += chunk.tag.mapped ? chunk.size() : 0;
      return;
    }
    for (std::uint64_t page = chunk.offset(); page < chunk.end(); ++page) {
      mapped += space_->handles()[page] != PageHandle{} ? 1 : 0;
    }
  });
  THERMOCLINE_CHECK(mapped == mapped_pages_, "Mapped pages are counted.");
  THERMOCLINE_CHECK(mapped + pool_->free_pages() == pool_->created_pages(), "Every page is mapped or in the pool.");
  THERMOCLINE_CHECK(pool_->created_bytes() <= pool_->limit(), "Pages are created under the limit.");
}

}  // namespace thermocline
