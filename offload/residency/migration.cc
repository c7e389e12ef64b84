// SPDX-License-Identifier: Apache-2.0
#include "offload/residency/migration.h"

#include <algorithm>
#include <utility>

#include "driver/check.h"
#include "driver/locks.h"

namespace thermocline {
namespace {

// While the host waits in a copy to or from pageable memory. All that it comes behind has completed
// (await_what_comes_before), so it ends without this thread or one that waits for the engine's lock.
struct InPlaceIf {
  explicit InPlaceIf(bool is_pageable) {
    if (is_pageable) [[unlikely]]
      allowed.emplace();
  }
  std::optional<WaitsInPlace> allowed;
};

}  // namespace

// The unit's bytes up to the end of the contents of the block's buffers. With a host fallback, includes bytes that no
// seen operation uses; in a slab these may belong to a buffer that it gets while it is evicted.
Bytes Migration::contents_of(const EvictionUnit& unit) const {
  const Block& block = *unit.whole->block;
  if (host_mappings_.on() && block.is_slab()) return unit.bytes();
  const Bytes end = std::min(block.contents_end(), (unit.begin() - block.begin()) + unit.bytes());
  const Bytes begin = unit.begin() - block.begin();
  // An empty unit of a slab: a copy of something keeps the rules simple.
  return end > begin ? end - begin : Bytes{1};
}

Migration::~Migration() {
  if (!open_) return;
  static_cast<void>(driver_.destroy_stream(out_));
  static_cast<void>(driver_.destroy_stream(in_));
}

Status Migration::open(void (*without_host_memory)()) {
  if (Status status = driver_.create_stream(&out_); !status.ok()) return status;
  if (Status status = driver_.create_stream(&in_); !status.ok()) {
    static_cast<void>(driver_.destroy_stream(out_));
    return status;
  }
  out_index_ = clock_.index_of(out_);
  in_index_ = clock_.index_of(in_);
  host_.try_mappable_on(in_, without_host_memory);
  open_ = true;
  return {};
}

// Not while pinned memory is about to be free: a copy that still reads it is being waited for, or a write to the file.
void* Migration::allocate_pageable(Bytes bytes) {
  if (!may_use_pageable_ || host_.wants_trim() || clock_.has_deferred() || awaits()) return nullptr;
  if (files_ != nullptr) bytes = spill_bytes_of(bytes);
  void* const host = host_.allocate_pageable(bytes);
  if (host != nullptr && pinning_refused_ != nullptr) std::exchange(pinning_refused_, nullptr)(host_.pinned_by_all());
  return host;
}

// The driver makes the host wait in a copy to or from pageable memory, with the engine's lock held. A kernel that it came
// behind might loop until a thread acts that needs the lock. So that kernel is waited for first, where waits are deferred
// without the lock; what is left then is the copy itself.
Status Migration::await_what_comes_before(StreamIndex copies, const EvictionUnit& unit) {
  Status status = clock_.synchronize(Use{copies, clock_.submitted(copies)});
  if (status.ok()) status = clock_.synchronize(unit.whole->block->uses);
  return status.ok() ? clock_.synchronize(unit.uses) : status;
}

Status Migration::copy_out(EvictionUnit& unit, bool may_wait) {
  BlockState& state = *unit.whole;
  THERMOCLINE_CHECK(unit.mapped() && unit.defined && unit.copy == HostCopy::kNone,
                    "only defined contents on the device, without a host copy, are copied out");
  // Copies submitted after it would be blocked, too.
  if (clock_.is_blocked(state.block->uses) || clock_.is_blocked(unit.uses)) return Status::not_ready();
  const Bytes bytes = contents_of(unit);
  void* host = allocate_host(bytes, unit.bytes());
  const bool is_pageable = host == nullptr && may_wait && (host = allocate_pageable(bytes)) != nullptr;
  host_refused_ = host == nullptr ? bytes : 0;
  if (host == nullptr) return Status::out_of_memory();
  Status status = is_pageable ? await_what_comes_before(out_index_, unit) : Status();
  const InPlaceIf nothing_before_it(is_pageable);
  if (status.ok()) status = clock_.wait_all(out_index_, state.block->uses);
  if (status.ok()) status = clock_.wait_all(out_index_, unit.uses);
  if (status.ok()) {
    const LinkMeter::Sample sample = meter_.begin(LinkMeter::kOut, bytes, out_);
    status = driver_.copy_to_host(host, unit.begin(), bytes, out_);
    meter_.end(sample, out_);
  }
  if (!status.ok()) {
    host_.free(host);
    return status;
  }
  unit.host = host;
  unit.host_bytes = bytes;
  unit.is_pageable = is_pageable;
  unit.stays_on_host = false;
  const Use use{out_index_, clock_.advance(out_index_)};
  static_cast<void>(clock_.fence(out_index_));
  unit.uses.add(use);
  state.wait_for.add(use);
  evicted_after(unit, use);
  statistics_.evicted_bytes += bytes;
  return {};
}

void Migration::evicted_after(EvictionUnit& unit, Use use) {
  unit.copy = HostCopy::kCopyingOut;
  unit.copy_out = use;
  copies_out_.push_back(use);
}

void* Migration::host_for_upload(const EvictionUnit& unit) {
  collect_retired();
  const Bytes bytes = contents_of(unit);
  void* host = host_mappings_.on() ? host_.allocate_pages(unit.bytes()) : nullptr;
  if (host == nullptr) host = host_.allocate(bytes);
  // Nothing waits for memory that others have not returned yet.
  if (host == nullptr) host_.forget_refusals();
  return host;
}

void Migration::keep_upload(EvictionUnit& unit, void* host, Use use, bool at_once) {
  THERMOCLINE_CHECK(unit.copy == HostCopy::kNone, "a unit has one host copy");
  unit.host = host;
  unit.host_bytes = contents_of(unit);
  unit.stays_on_host = false;
  unit.copy = at_once ? HostCopy::kCurrent : HostCopy::kCopyingOut;
  unit.copy_out = use;
  unit.uses.add(use);
}

bool Migration::set_aside(EvictionUnit& unit) {
  void* const host = allocate_host(contents_of(unit), unit.bytes());
  if (host == nullptr) return false;
  unit.host = host;
  unit.host_bytes = contents_of(unit);
  unit.copy = HostCopy::kCurrent;
  return true;
}

Status Migration::copy_in(EvictionUnit& unit) {
  BlockState& state = *unit.whole;
  THERMOCLINE_CHECK(unit.host != nullptr, "a copy back needs a host copy");
  if (clock_.is_blocked(state.block->uses) || clock_.is_blocked(unit.uses)) return Status::not_ready();
  // The pages may still be in use by an earlier page owner's last operations, and the host copy may be on its way out.
  Status status = unit.is_pageable ? await_what_comes_before(in_index_, unit) : Status();
  const InPlaceIf nothing_before_it(unit.is_pageable);
  if (status.ok()) status = clock_.wait_all(in_index_, state.block->uses);
  if (status.ok()) status = clock_.wait_all(in_index_, unit.uses);
  if (status.ok()) {
    const LinkMeter::Sample sample = meter_.begin(LinkMeter::kIn, unit.host_bytes, in_);
    status = driver_.copy_to_device(unit.begin(), unit.host, unit.host_bytes, in_);
    meter_.end(sample, in_);
  }
  if (!status.ok()) return status;
  const Use use{in_index_, clock_.advance(in_index_)};
  static_cast<void>(clock_.fence(in_index_));
  unit.uses.add(use);
  state.wait_for.add(use);
  returning_.push_back(use);
  statistics_.restored_bytes += unit.host_bytes;
  return {};
}

// Every copy of ours that reads or writes the host memory is among the unit's uses.
UseSet Migration::uses_of_host(EvictionUnit& unit) {
  UseSet uses = unit.uses;
  uses.join(unit.host_reads);
  unit.host_reads.clear();
  return uses;
}

void Migration::free_host_of(EvictionUnit& unit) {
  retired_.push_back(Retired{files_->take_host(unit), uses_of_host(unit)});
  unit.is_pageable = false;
}

void Migration::drop_file_copy(EvictionUnit& unit) {
  if (unit.file == nullptr) return;
  std::optional<FileCopies::Ending> none;
  files_->release(unit, &none);
  THERMOCLINE_CHECK(!none.has_value(), "what is being written is not given up by itself");
}

void Migration::drop_host_copy(EvictionUnit& unit) {
  if (unit.copy == HostCopy::kNone) return;
  const UseSet uses = uses_of_host(unit);
  std::optional<FileCopies::Ending> ending;
  if (unit.file != nullptr) files_->release(unit, &ending);
  if (ending.has_value()) {
    ending->uses = uses;
    files_->end_later(std::move(*ending));
  } else if (unit.host != nullptr && !host_mappings_.abandon(unit)) {
    retired_.push_back(Retired{unit.host, uses});
  }
  unit.host = nullptr;
  unit.host_bytes = 0;
  unit.is_pageable = false;
  unit.copy = HostCopy::kNone;
}

Status Migration::wait_for(const std::shared_ptr<SpillTransfer>& transfer) {
  if (!transfer->is_pending()) return {};
  if (clock_.defers()) {
    awaited_ = transfer;
    return Status::not_ready();
  }
  files_->wait(*transfer);
  return {};
}

bool Migration::has_left(EvictionUnit& unit) {
  if (unit.copy == HostCopy::kCurrent) return true;
  if (unit.copy != HostCopy::kCopyingOut || !clock_.passed(unit.copy_out)) return false;
  unit.copy = HostCopy::kCurrent;
  return true;
}

Status Migration::finish(EvictionUnit& unit) {
  if (unit.copy != HostCopy::kCopyingOut) return {};
  if (Status status = clock_.synchronize(unit.copy_out); !status.ok()) return status;
  unit.copy = HostCopy::kCurrent;
  return {};
}

std::size_t Migration::copies_out() {
  while (!copies_out_.empty() && clock_.passed(copies_out_.front())) copies_out_.pop_front();
  return copies_out_.size();
}

std::size_t Migration::returning() {
  while (!returning_.empty() && clock_.passed(returning_.front())) returning_.pop_front();
  return returning_.size();
}

void Migration::drain() {
  if (!open_) return;
  const WaitsInPlace at_the_end;
  static_cast<void>(driver_.synchronize_stream(out_));
  static_cast<void>(driver_.synchronize_stream(in_));
  clock_.synchronized(out_index_);
  clock_.synchronized(in_index_);
  copies_out_.clear();
  returning_.clear();
  if (files_ != nullptr) {
    files_->drain();
    collect_ended();
  }
  for (const Retired& retired : retired_) host_.free(retired.host);
  retired_.clear();
}

void* Migration::allocate_host(Bytes bytes, Bytes page_bytes) {
  collect_retired();
  const auto allocate = [&] {
    return files_ == nullptr ? host_.allocate(bytes) : host_.allocate_whole(spill_bytes_of(bytes));
  };
  for (bool collected = !host_mappings_.on();;) {
    if (host_mappings_.on()) {
      if (void* host = host_.allocate_pages(page_bytes); host != nullptr || host_.wants_trim()) return host;
    }
    if (void* host = allocate(); host != nullptr || host_.wants_trim()) return host;
    const auto waits_for = first_that_goes_on();
    if (waits_for == retired_.end()) {
      if (std::exchange(collected, true)) return nullptr;
      free_abandoned(Wait::kYes);
      continue;
    }
    if (!clock_.synchronize(waits_for->uses).ok()) return nullptr;
    host_.free(waits_for->host);
    retired_.erase(waits_for);
  }
}

void Migration::free_abandoned(Wait wait) {
  for (void* const host : host_mappings_.collect(wait)) host_.free(host);
}

std::deque<Migration::Retired>::iterator Migration::first_that_goes_on() {
  return std::ranges::find_if(retired_, [this](const Retired& retired) { return !clock_.is_blocked(retired.uses); });
}

void Migration::collect_ended() {
  for (auto ended = files_->next_ended(); ended.has_value(); ended = files_->next_ended())
    retired_.push_back(Retired{ended->host, ended->uses});
}

void Migration::collect_retired() {
  if (files_ != nullptr) collect_ended();
  if (host_mappings_.on()) free_abandoned(Wait::kNo);
  for (auto oldest = first_that_goes_on(); oldest != retired_.end() && clock_.passed(oldest->uses);
       oldest = first_that_goes_on()) {
    host_.free(oldest->host);
    retired_.erase(oldest);
  }
}

Status Migration::await_retired() {
  for (;;) {
    collect_retired();
    const auto waits_for = first_that_goes_on();
    if (waits_for == retired_.end()) return {};
    if (Status status = clock_.synchronize(waits_for->uses); !status.ok()) return status;
  }
}

}  // namespace thermocline
