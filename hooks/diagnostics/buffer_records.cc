// SPDX-License-Identifier: Apache-2.0
#include "hooks/diagnostics/buffer_records.h"

#include "allocator/heap.h"

namespace thermocline {

const BufferRecord* BufferRecords::containing(const Map& map, DeviceAddress address) {
  auto found = map.upper_bound(address.value);
  if (found == map.begin()) return nullptr;
  --found;
  return address < found->second.end() ? &found->second : nullptr;
}

void BufferRecords::add(DeviceAddress address, Bytes bytes, const CallSite& site, bool guarded) {
  auto over = gone_.upper_bound(address.value);
  if (over != gone_.begin() && std::prev(over)->second.end() > address) --over;
  while (over != gone_.end() && over->first < address.value + bytes) over = gone_.erase(over);
  live_[address.value] = BufferRecord{address, bytes, site, std::nullopt, guarded};
}

bool BufferRecords::remove(DeviceAddress address, const CallSite& site) {
  auto moved = live_.extract(address.value);
  if (moved.empty()) return false;
  moved.mapped().freed = site;
  gone_.insert_or_assign(address.value, moved.mapped());
  order_.push_back(address.value);
  if (order_.size() > kMostGone) {
    gone_.erase(order_.front());
    order_.pop_front();
  }
  return true;
}

bool BufferRecords::is_beside_live(DeviceAddress address) const {
  if (address.value > 0 && live(address - 1) != nullptr && live(address - 1)->end() == address) return true;
  const auto behind = live_.upper_bound(address.value);
  return behind != live_.end() && behind->first - address.value <= Heap::kMostBefore;
}

void BufferRecords::forget(std::uint64_t begin, Bytes bytes) {
  for (Map* const map : {&live_, &gone_}) map->erase(map->lower_bound(begin), map->lower_bound(begin + bytes));
}

}  // namespace thermocline
