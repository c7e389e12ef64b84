// SPDX-License-Identifier: Apache-2.0
#include "allocator/page_pool.h"

#include <algorithm>
#include <new>

#include "driver/check.h"

namespace thermocline {

PagePool::PagePool(const Driver& driver, int device, Bytes page_bytes, Bytes limit)
    : driver_(&driver), device_(device), page_bytes_(page_bytes), limit_(limit) {
  THERMOCLINE_CHECK(page_bytes != 0, "A page has a size.");
}

PagePool::~PagePool() { static_cast<void>(trim(0)); }

// Whether to ask the driver for more memory than the device is known to have left.
bool PagePool::may_ask(Ask ask) {
  if (ask == Ask::kInsist) return true;
  if (++turned_down_ < pause_) return false;
  turned_down_ = 0;
  pause_ = std::min(2 * pause_, kLongestPause);
  return true;
}

Status PagePool::create(std::uint64_t count, Ask ask) {
  count = std::min(count, limit_ / page_bytes_ - created_);
  if (count > known_pages() && !may_ask(ask)) count = known_pages();
  // After this, returning a page to the pool needs no host memory and can not fail.
  free_.reserve(created_ + count);
  for (std::uint64_t i = 0; i < count; ++i) {
    PageHandle page{};
    if (const Status status = driver_->create_page(page_bytes_, device_, &page); !status.ok()) {
      if (status.is_out_of_memory()) device_pages_ = created_;
      return status;
    }
    ++creates_;
    if (++created_ > device_pages_) {
      device_pages_ = kUnknown;
      pause_ = kFirstPause;
    }
    peak_created_ = std::max(peak_created_, created_);
    give(page);
  }
  return Status();
}

Status PagePool::take(std::uint64_t count, std::vector<PageHandle>* out) {
  if (free_.size() < count) {
    const std::uint64_t missing = count - free_.size();
    if (missing > creatable_pages()) return Status::out_of_memory();
    if (const Status status = create(missing, Ask::kInsist); !status.ok()) return status;
  }
  // Pages returned last are taken first, so the next to be trimmed are those that were idle longest.
  out->insert(out->end(), free_.rbegin(), free_.rbegin() + static_cast<std::ptrdiff_t>(count));
  remove_from_index(std::span(free_).last(count));
  free_.resize(free_.size() - count);
  return Status();
}

bool PagePool::holds(PageHandle page) {
  if (!is_indexed_) {
    index_ = {free_.begin(), free_.end()};
    is_indexed_ = true;
  }
  return index_.contains(page);
}

void PagePool::take(PageHandle page) {
  std::erase(free_, page);
  remove_from_index({&page, 1});
}

// Giving a page back can not fail: without memory the next holds() begins anew.
void PagePool::add_to_index(PageHandle page) noexcept {
  try {
    index_.insert(page);
  } catch (const std::bad_alloc&) {
    index_.clear();
    is_indexed_ = false;
  }
}

void PagePool::remove_from_index(std::span<const PageHandle> pages) {
  if (!is_indexed_) return;
  for (const PageHandle page : pages) index_.erase(page);
}

Status PagePool::trim(Bytes keep) {
  Status result;
  std::size_t destroyed = 0;
  while (destroyed < free_.size() && created_bytes() > keep) {
    if (const Status status = driver_->destroy_page(free_[destroyed]); !status.ok()) {
      result = status;
      break;
    }
    ++destroyed;
    ++destroys_;
    --created_;
  }
  remove_from_index(std::span(free_).first(destroyed));
  free_.erase(free_.begin(), free_.begin() + static_cast<std::ptrdiff_t>(destroyed));
  return result;
}

bool PagePool::set_limit(Bytes limit) {
  if (created_bytes() > limit) return false;
  if (limit > limit_) {
    device_pages_ = kUnknown;
    pause_ = kFirstPause;
  }
  limit_ = limit;
  return true;
}

}  // namespace thermocline
