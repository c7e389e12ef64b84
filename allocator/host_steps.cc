// SPDX-License-Identifier: Apache-2.0
#include "allocator/host_steps.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "allocator/pageable_host.h"
#include "driver/check.h"
#include "driver/locks.h"
#include "driver/numa.h"

namespace thermocline {
namespace {

// A program that evicts little pins little: steps double what is taken until they have their full size.
constexpr Bytes kFirstStepBytes = 16 * kMiB;
// A refused request costs as much as a registration, and somebody else may have returned memory meanwhile.
constexpr int kUnaskedInARow = 16;

}  // namespace

HostSteps::HostSteps(const Driver& driver, Bytes limit, Bytes step_bytes, int node, SharedHostLimits shared,
                     MappableHost* mappable)
    : driver_(&driver),
      limit_(limit),
      step_bytes_(round_up(std::max(step_bytes, kPage), kPage)),
      node_(node),
      shared_(shared),
      source_(mappable),
      mappable_(mappable) {}

HostSteps::~HostSteps() {
  for (const auto& [address, step] : steps_) static_cast<void>(free_step(address, step.bytes, step.first->tag.kind));
  if (shared_.of_devices != nullptr) shared_.of_devices->remove_pinned(taken_ - pageable_);
  enter(0, 0);
}

bool HostSteps::free_step(std::uint64_t at, Bytes bytes, StepKind kind) {
  void* const step = reinterpret_cast<void*>(at);
  if (kind == StepKind::kPageable) return give_pageable_host(step, bytes);
  return source_ != nullptr && source_->owns(step) ? source_->give(step) : driver_->free_host(step).ok();
}

void* HostSteps::take(Bytes bytes, Bytes alignment) {
  wants_trim_.store(false, std::memory_order_relaxed);
  if (bytes == 0 || bytes > (Bytes{1} << 62)) return nullptr;
  const std::uint64_t pages = round_up(bytes, kPage) / kPage;
  const std::uint64_t alignment_pages = std::max<std::uint64_t>(alignment / kPage, 1);
  const MutexLock lock(mutex_);
  for (const StepKind kind : {StepKind::kPinned, StepKind::kMappable}) {
    Chunk* const chunk = take_locked(StepTag::shelf_of(kind), pages, alignment_pages);
    if (chunk != nullptr) return hand_out(chunk);
  }
  if (is_refused_again(pages * kPage)) return nullptr;
  if (!add_step((pages + alignment_pages - 1) * kPage, kPage, StepKind::kPinned)) return nullptr;
  Chunk* const chunk = take_locked(StepTag::shelf_of(StepKind::kPinned), pages, alignment_pages);
  THERMOCLINE_CHECK(chunk != nullptr, "A new step has room for the extent it was made for.");
  return chunk == nullptr ? nullptr : hand_out(chunk);
}

void* HostSteps::take_mappable(Bytes bytes) {
  wants_trim_.store(false, std::memory_order_relaxed);
  const MutexLock lock(mutex_);
  if (source_ == nullptr || bytes == 0 || bytes > (Bytes{1} << 62)) return nullptr;
  const Bytes unit = source_->page_bytes();
  const std::uint64_t pages = round_up(bytes, unit) / kPage;
  const unsigned shelf = StepTag::shelf_of(StepKind::kMappable);
  Chunk* chunk = take_locked(shelf, pages, unit / kPage);
  if (chunk == nullptr && mappable_ != nullptr && add_step(pages * kPage, unit, StepKind::kMappable)) {
    chunk = take_locked(shelf, pages, unit / kPage);
    THERMOCLINE_CHECK(chunk != nullptr, "A new step begins with a page and has room for what it was made for.");
  }
  return chunk == nullptr ? nullptr : hand_out(chunk);
}

void* HostSteps::take_pageable(Bytes bytes) {
  const MutexLock lock(mutex_);
  if (bytes == 0 || bytes > (Bytes{1} << 62)) return nullptr;
  const std::uint64_t pages = round_up(bytes, kPage) / kPage;
  const unsigned shelf = StepTag::shelf_of(StepKind::kPageable);
  Chunk* chunk = take_locked(shelf, pages, 1);
  if (chunk == nullptr && !pinning_refused_) return nullptr;
  if (chunk == nullptr && add_step(pages * kPage, kPage, StepKind::kPageable)) chunk = take_locked(shelf, pages, 1);
  if (chunk != nullptr) {
    if (refused_bytes_ == 0) unasked_ = kUnaskedInARow;
    refused_bytes_ = refused_bytes_ == 0 ? pages * kPage : std::min(refused_bytes_, pages * kPage);
  } else if (std::exchange(refused_bytes_, 0) != 0 && add_step(pages * kPage, kPage, StepKind::kPinned)) {
    chunk = take_locked(StepTag::shelf_of(StepKind::kPinned), pages, 1);
  }
  return chunk == nullptr ? nullptr : hand_out(chunk);
}

bool HostSteps::is_refused_again(Bytes bytes) {
  if (refused_bytes_ == 0 || bytes < refused_bytes_) return false;
  if (unasked_-- > 0) return pinning_refused_ = true;
  refused_bytes_ = 0;
  return false;
}

void* HostSteps::hand_out(Chunk* chunk) {
  const std::uint64_t address = chunk->offset() * kPage;
  extents_.emplace(address, chunk);
  steps_.find(chunk->tag.step)->second.used_pages += chunk->size();
  return reinterpret_cast<void*>(address);
}

HostSteps::Chunk* HostSteps::take_locked(unsigned shelf, std::uint64_t pages, std::uint64_t alignment_pages) {
  const auto aligned = [alignment_pages](const Chunk* chunk) { return round_up(chunk->offset(), alignment_pages); };
  Chunk* fit = space_.best_fit(shelf, pages);
  if (fit != nullptr && aligned(fit) + pages > fit->end()) fit = space_.best_fit(shelf, pages + alignment_pages - 1);
  return fit != nullptr ? space_.take(fit, aligned(fit), pages) : nullptr;
}

// How much of the wanted bytes the limits leave; the ledger is asked when it comes to that.
Bytes HostSteps::room_for(Bytes wanted) const {
  Bytes most = limit_ == 0 ? taken_ + wanted : limit_;
  if (shared_.of_devices != nullptr) most = std::min(most, shared_.of_devices->left_for(entered_));
  return most - std::min(most, taken_);
}

bool HostSteps::add_step(Bytes bytes, Bytes unit, StepKind kind) {
  // A large extent gets a registration of exactly its size; smaller ones of the same size share a registration without
  // a remainder.
  const Bytes about = std::min(step_bytes_, std::max(taken_, kFirstStepBytes));
  const Bytes wanted = bytes >= step_bytes_ / 4 ? bytes : (about + bytes - 1) / bytes * bytes;
  driver_refused_ = false;
  if (kind == StepKind::kPinned) pinning_refused_ = false;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Bytes room = room_for(wanted);
    Bytes step = std::min(wanted, round_down(room, unit));
    while (step >= bytes) {
      if (register_step(step, kind)) return true;
      if (step == bytes) break;
      step = std::max(bytes, round_up(step / 2, unit));
    }
    // Empty registrations of other sizes may use up the limit.
    if (trims_later_ && any_in_the_way(kind)) {
      wants_trim_.store(true, std::memory_order_relaxed);
      return false;
    }
    trim_locked(kind);
  }
  // Each refused attempt costs as much as a registration, so from now on only ordinary memory is used.
  if (driver_refused_) mappable_ = nullptr;
  return false;
}

// Returned pageable memory is not what the driver pins next.
bool HostSteps::is_in_the_way(const Step& step, StepKind wanted) const {
  const bool is_of_no_help =
      wanted == StepKind::kPinned && pinning_refused_ && step.first->tag.kind == StepKind::kPageable;
  return step.used_pages == 0 && !is_of_no_help;
}

bool HostSteps::any_in_the_way(StepKind wanted) const {
  const auto is_one = [&](const auto& step) THERMOCLINE_NOT_ANALYSED { return is_in_the_way(step.second, wanted); };
  return leaving_ > 0 || std::ranges::any_of(steps_, is_one);
}

// Called when the limit or the driver has refused an allocation, which may be made with locks held.
void HostSteps::trim_locked(StepKind wanted) {
  const WaitsInPlace for_an_allocation;
  for (auto step = steps_.begin(); step != steps_.end();) {
    const auto next = std::next(step);
    if (is_in_the_way(step->second, wanted)) give_back(step);
    step = next;
  }
}

// Entered before memory is taken and after it is returned, so shared limits never show too little.
bool HostSteps::enter(Bytes taken, Bytes claimed) {
  const Bytes now = std::max(taken, claimed);
  if (!shared_.change(entered_, now)) return false;
  entered_ = now;
  return true;
}

Status HostSteps::take_step(Bytes bytes, StepKind kind, void** out) {
  if (kind == StepKind::kMappable) return source_->take(bytes, out);
  const PreferNode near_the_device(node_);
  if (kind == StepKind::kPinned) return driver_->allocate_host(bytes, out);
  *out = take_pageable_host(bytes);
  return *out == nullptr ? Status::out_of_memory() : Status();
}

void HostSteps::count(StepKind kind, Bytes bytes) {
  taken_ += bytes;
  ever_taken_ += bytes;
  peak_taken_ = std::max(peak_taken_, taken_);
  if (kind != StepKind::kPageable) {
    if (shared_.of_devices != nullptr) shared_.of_devices->add_pinned(bytes);
    return;
  }
  pageable_ += bytes;
  peak_pageable_ = std::max(peak_pageable_, pageable_);
}

void HostSteps::discount(StepKind kind, Bytes bytes) {
  taken_ -= bytes;
  if (kind == StepKind::kPageable) pageable_ -= bytes;
  if (kind == StepKind::kPageable) return;
  refused_bytes_ = 0;
  if (shared_.of_devices != nullptr) shared_.of_devices->remove_pinned(bytes);
}

bool HostSteps::register_step(Bytes bytes, StepKind kind) {
  if (kind == StepKind::kMappable && mappable_ == nullptr) return false;
  if (!enter(taken_ + bytes, claimed_)) return false;
  void* at = nullptr;
  Status status = take_step(bytes, kind, &at);
  driver_refused_ |= kind == StepKind::kMappable && !status.ok();
  // Memory that has failed its proof is not tried again.
  if (kind == StepKind::kMappable && status == Status::not_supported()) mappable_ = nullptr;
  const auto address = reinterpret_cast<std::uint64_t>(at);
  if (status.ok() && address % kPage != 0) {
    static_cast<void>(free_step(address, bytes, kind));
    status = Status::not_supported();
  }
  pinning_refused_ |= kind == StepKind::kPinned && !status.ok();
  if (!status.ok()) {
    enter(taken_, claimed_);
    return false;
  }
  StepTag tag;
  tag.step = address;
  tag.kind = kind;
  steps_.emplace(address, Step{space_.add_range(address / kPage, bytes / kPage, tag), bytes, 0});
  count(kind, bytes);
  return true;
}

bool HostSteps::give(void* at) {
  const MutexLock lock(mutex_);
  const auto found = extents_.find(reinterpret_cast<std::uint64_t>(at));
  if (found == extents_.end()) return false;
  Chunk* const chunk = found->second;
  steps_.find(chunk->tag.step)->second.used_pages -= chunk->size();
  extents_.erase(found);
  space_.give(chunk);
  return true;
}

bool HostSteps::owns(void* at) const {
  const MutexLock lock(mutex_);
  return extents_.contains(reinterpret_cast<std::uint64_t>(at));
}

void HostSteps::give_back(std::map<std::uint64_t, Step>::iterator step) {
  const StepKind kind = step->second.first->tag.kind;
  if (!free_step(step->first, step->second.bytes, kind)) return;
  space_.remove_range(step->second.first);
  discount(kind, step->second.bytes);
  steps_.erase(step);
  enter(taken_, claimed_);
}

bool HostSteps::claim(Bytes bytes) {
  const MutexLock lock(mutex_);
  if (!enter(taken_, bytes)) return false;
  claimed_ = bytes;
  return true;
}

std::vector<HostSteps::Leaving> HostSteps::let_leave(Bytes keep) {
  const MutexLock lock(mutex_);
  std::vector<Leaving> empty;
  Bytes left = 0;
  for (const auto& [address, step] : steps_) {
    if (step.used_pages != 0) continue;
    empty.push_back({address, step.bytes, step.first->tag.kind});
    left += step.bytes;
  }
  std::ranges::stable_sort(empty, std::ranges::greater(), &Leaving::bytes);
  auto end = empty.begin();
  for (; end != empty.end() && left > keep; ++end) {
    const auto step = steps_.find(end->at);
    space_.remove_range(step->second.first);
    steps_.erase(step);
    left -= end->bytes;
    leaving_ += end->bytes;
  }
  empty.erase(end, empty.end());
  return empty;
}

void HostSteps::has_left(const Leaving& step, bool given) {
  const MutexLock lock(mutex_);
  leaving_ -= step.bytes;
  if (leaving_ == 0) left_.notify_all();
  if (given) {
    discount(step.kind, step.bytes);
    enter(taken_, claimed_);
    return;
  }
  StepTag tag;
  tag.step = step.at;
  tag.kind = step.kind;
  steps_.emplace(step.at, Step{space_.add_range(step.at / kPage, step.bytes / kPage, tag), step.bytes, 0});
}

void HostSteps::trim(Bytes keep) {
  for (const Leaving& step : let_leave(keep)) has_left(step, free_step(step.at, step.bytes, step.kind));
}

void HostSteps::await_leaving() {
  MutexLock lock(mutex_);
  while (leaving_ != 0) left_.wait(lock);
}

bool HostSteps::trim_later(bool later) {
  const MutexLock lock(mutex_);
  return std::exchange(trims_later_, later);
}

bool HostSteps::make_way() {
  Bytes before = 0;
  {
    const MutexLock lock(mutex_);
    wants_trim_.store(false, std::memory_order_relaxed);
    if (!any_in_the_way(StepKind::kPageable)) return false;
    before = taken_;
  }
  trim(0);
  await_leaving();
  return taken_bytes() < before;
}

Bytes HostSteps::taken_bytes() const {
  const MutexLock lock(mutex_);
  return taken_;
}

Bytes HostSteps::peak_taken_bytes() const {
  const MutexLock lock(mutex_);
  return peak_taken_;
}

Bytes HostSteps::pageable_bytes() const {
  const MutexLock lock(mutex_);
  return pageable_;
}

Bytes HostSteps::pinned_by_all() const {
  const MutexLock lock(mutex_);
  return shared_.of_devices == nullptr ? taken_ - pageable_ : shared_.of_devices->pinned();
}

Bytes HostSteps::peak_pageable_bytes() const {
  const MutexLock lock(mutex_);
  return peak_pageable_;
}

Bytes HostSteps::ever_taken_bytes() const {
  const MutexLock lock(mutex_);
  return ever_taken_;
}

void HostSteps::reset_peak() {
  const MutexLock lock(mutex_);
  peak_taken_ = taken_;
  peak_pageable_ = pageable_;
}

void HostSteps::validate() const {
  const MutexLock lock(mutex_);
  space_.validate();
  Bytes taken = 0, pageable = 0;
  std::uint64_t used = 0;
  for (const auto& [address, step] : steps_) {
    taken += step.bytes;
    if (step.first->tag.kind == StepKind::kPageable) pageable += step.bytes;
    used += step.used_pages;
    THERMOCLINE_CHECK(step.first->offset() * kPage == address, "A step begins with its first chunk.");
  }
  THERMOCLINE_CHECK(taken + leaving_ == taken_ && (limit_ == 0 || taken_ <= limit_),
                    "Taken bytes are the steps' and of what is being given back, under the limit.");
  THERMOCLINE_CHECK(leaving_ > 0 ? pageable <= pageable_ : pageable == pageable_, "Pageable bytes are counted.");
  THERMOCLINE_CHECK(!shared_.any() || entered_ == std::max(taken_, claimed_),
                    "Shared limits have what is taken or claimed.");
  std::uint64_t in_use = 0;
  std::size_t extents = 0;
  space_.for_each([&](const Chunk& chunk) THERMOCLINE_NOT_ANALYSED {
    const auto step = steps_.find(chunk.tag.step);
    THERMOCLINE_CHECK(step != steps_.end() && chunk.offset() * kPage >= step->first &&
                          chunk.end() * kPage <= step->first + step->second.bytes,
                      "A chunk lies in its step.");
    if (chunk.is_free()) return;
    in_use += chunk.size();
    const auto extent = extents_.find(chunk.offset() * kPage);
    THERMOCLINE_CHECK(extent != extents_.end() && extent->second == &chunk, "A chunk in use is an extent.");
    ++extents;
  });
  THERMOCLINE_CHECK(in_use == used && extents == extents_.size(), "Steps count their extents.");
}

}  // namespace thermocline
