// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/memory/buffers.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "simulator/core/check.h"

namespace simulator {

bool Buffers::add(Address at, Bytes bytes, Fresh fresh) {
  if (bytes == 0 || at + bytes < at) return false;
  const auto next = by_address_.lower_bound(at);
  if (next != by_address_.end() && next->first < at + bytes) return false;
  if (next != by_address_.begin()) {
    const Buffer& before = records_[std::prev(next)->second].buffer;
    if (before.address + before.bytes > at) return false;
  }
  const Slot slot = take_slot();
  records_[slot] = {{next_number_++, at, bytes}, fresh, true, 0, static_cast<std::uint32_t>(fresh_.size())};
  by_address_.emplace_hint(next, at, slot);
  if (fresh != Fresh::kNo) fresh_.push_back(slot);
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  return true;
}

bool Buffers::remove(Address at) {
  const auto entry = by_address_.find(at);
  if (entry == by_address_.end()) return false;
  Record& record = records_[entry->second];
  live_ -= record.buffer.bytes;
  const Slot slot = entry->second;
  if (record.fresh != Fresh::kNo) leave_fresh(slot);
  record.alive = false;
  by_address_.erase(entry);
  recycle(slot);
  return true;
}

Buffers::Slot Buffers::take_slot() {
  if (free_slots_.empty()) {
    records_.emplace_back();
    return static_cast<Slot>(records_.size() - 1);
  }
  const Slot slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void Buffers::recycle(Slot slot) {
  const Record& record = records_[slot];
  if (!record.alive && record.holds == 0) free_slots_.push_back(slot);
}

std::optional<Buffer> Buffers::find(Address at) const {
  auto entry = by_address_.upper_bound(at);
  if (entry == by_address_.begin()) return std::nullopt;
  const Buffer& buffer = records_[std::prev(entry)->second].buffer;
  if (at - buffer.address >= buffer.bytes) return std::nullopt;
  return buffer;
}

bool Buffers::in_heap(Address at) const {
  auto entry = heaps_.upper_bound(at);
  if (entry == heaps_.begin()) return false;
  --entry;
  return at - entry->first < entry->second;
}

void Buffers::hold_fresh(Address at, Bytes bytes, Slots& out) {
  if (fresh_.empty() || bytes == 0) return;
  auto entry = by_address_.upper_bound(at);
  if (entry != by_address_.begin()) --entry;
  for (; entry != by_address_.end() && entry->first < at + bytes; ++entry) {
    Record& record = records_[entry->second];
    if (record.fresh == Fresh::kNo || record.buffer.address + record.buffer.bytes <= at) continue;
    if (std::find(out.begin(), out.end(), entry->second) != out.end()) continue;
    ++record.holds;
    out.push_back(entry->second);
  }
}

void Buffers::hold_all_fresh(Slots& out) {
  for (const Slot slot : fresh_) {
    ++records_[slot].holds;
    out.push_back(slot);
  }
}

std::optional<Buffer> Buffers::take_fresh(Slot slot, bool named) {
  Record& record = records_[slot];
  const Fresh fresh = std::exchange(record.fresh, Fresh::kNo);
  if (fresh == Fresh::kNo) return std::nullopt;
  if (record.alive) leave_fresh(slot);
  return named || fresh == Fresh::kYes ? std::optional(record.buffer) : std::nullopt;
}

// The last buffer in the list takes its place.
void Buffers::leave_fresh(Slot slot) {
  const std::uint32_t index = records_[slot].fresh_index;
  fresh_[index] = fresh_.back();
  records_[fresh_[index]].fresh_index = index;
  fresh_.pop_back();
}

void Buffers::let_go(Slot slot) {
  SIMULATOR_CHECK(records_[slot].holds > 0, "only what is held is let go");
  --records_[slot].holds;
  recycle(slot);
}

void Buffers::validate() const {
  Address end = 0;
  Bytes live = 0;
  std::size_t fresh = 0;
  for (const auto& [at, slot] : by_address_) {
    const Record& record = records_[slot];
    SIMULATOR_CHECK(record.alive && record.buffer.address == at, "an address leads to its live record");
    SIMULATOR_CHECK(at >= end, "buffers do not overlap");
    end = at + record.buffer.bytes;
    live += record.buffer.bytes;
    if (record.fresh == Fresh::kNo) continue;
    ++fresh;
    SIMULATOR_CHECK(record.fresh_index < fresh_.size() && fresh_[record.fresh_index] == slot,
                    "a fresh record is in the list");
  }
  SIMULATOR_CHECK(live == live_ && fresh == fresh_.size(), "live bytes and fresh buffers are counted");
}

}  // namespace simulator
