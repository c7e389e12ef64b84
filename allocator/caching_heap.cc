// SPDX-License-Identifier: Apache-2.0
#include "allocator/caching_heap.h"

#include <algorithm>

#include "driver/check.h"

namespace thermocline {

std::optional<DeviceAddress> CachingHeap::reuse(Bytes bytes, std::uint64_t context) {
  for (auto one = by_size_.lower_bound({bytes, DeviceAddress{0}}); one != by_size_.end() && one->first == bytes;
       ++one) {
    const auto block = blocks_.find(one->second);
    if (block->second.context != context) continue;
    by_size_.erase(one);
    cached_bytes_ -= counted(bytes);
    block->second.state = State::kLive;
    becomes_live(block->second);
    return block->first;
  }
  return std::nullopt;
}

// The smallest cached block that suffices, or else the largest ones: the driver may wait at each of them. Blocks whose
// users are being waited for do not count: these may need the very thread that asks.
CachingHeap::Reserved CachingHeap::reserve(Bytes bytes, std::vector<Leaving>* surplus) {
  const Bytes wanted = counted(bytes);
  if (budget_ != 0) {
    const Bytes stays = live_counted_ + reserved_bytes_;
    if (wanted > budget_ || stays > budget_ - wanted) return Reserved::kNo;
    for (Bytes rest = taken(); rest > budget_ - wanted;) {
      if (by_size_.empty()) return leaving_bytes_ > 0 ? Reserved::kNotYet : Reserved::kNo;
      const Bytes shortage = rest - (budget_ - wanted);
      const auto suffices = by_size_.lower_bound({shortage, DeviceAddress{0}});
      const auto chosen = suffices == by_size_.end() ? std::prev(by_size_.end()) : suffices;
      surplus->reserve(surplus->size() + 1);
      surplus->push_back(uncache(blocks_.find(chosen->second)));
      rest -= counted(surplus->back().block.bytes);
    }
    if (!surplus->empty()) return Reserved::kNotYet;
  }
  reserved_bytes_ += wanted;
  return Reserved::kYes;
}

void CachingHeap::unreserve(Bytes bytes) {
  THERMOCLINE_CHECK(counted(bytes) <= reserved_bytes_, "the driver was asked for what was reserved");
  reserved_bytes_ -= counted(bytes);
}

void CachingHeap::allocated(DeviceAddress at, const Block& block) {
  unreserve(block.bytes);
  // The driver gives no address twice: what was there has been freed in a way that is not seen (a node of a graph).
  if (const auto stale = blocks_.find(at); stale != blocks_.end()) forget(stale);
  blocks_.insert_or_assign(at, block);
  if (!block.is_external) {
    ++counts_.creates;
    counts_.created_bytes += counted(block.bytes);
  }
  becomes_live(block);
}

CachingHeap::State CachingHeap::state_of(DeviceAddress at) const {
  const auto found = blocks_.find(at);
  return found == blocks_.end() ? State::kUnknown : found->second.state;
}

void CachingHeap::share(DeviceAddress at) {
  auto behind = blocks_.upper_bound(at);
  if (behind == blocks_.begin()) return;
  auto& [begin, block] = *std::prev(behind);
  if (at.value - begin.value < block.bytes) block.is_shared = true;
}

CachingHeap::Blocks::iterator CachingHeap::live(DeviceAddress at) {
  const auto found = blocks_.find(at);
  THERMOCLINE_CHECK(found != blocks_.end() && found->second.state == State::kLive, "only a live block is freed");
  return found;
}

void CachingHeap::wait_began(DeviceAddress at) {
  Block& block = live(at)->second;
  block.state = State::kWaited;
  is_live_no_more(block);
  cached_bytes_ += counted(block.bytes);
}

void CachingHeap::wait_failed(DeviceAddress at) {
  const auto found = blocks_.find(at);
  if (found == blocks_.end()) return;  // its context has ended
  THERMOCLINE_CHECK(found->second.state == State::kWaited, "only a wait that began fails");
  found->second.state = State::kLive;
  cached_bytes_ -= counted(found->second.bytes);
  becomes_live(found->second);
  // Not another allocation of the program's.
  counts_.allocated_bytes -= found->second.bytes;
  --counts_.allocations;
}

void CachingHeap::cache(DeviceAddress at) {
  const auto found = blocks_.find(at);
  if (found == blocks_.end()) return;  // its context has ended
  THERMOCLINE_CHECK(found->second.state == State::kWaited && !found->second.is_external,
                    "a block is cached when its users are done");
  by_size_.insert({found->second.bytes, at});
  found->second.state = State::kCached;
}

CachingHeap::Leaving CachingHeap::take_out(DeviceAddress at) {
  const auto found = live(at);
  const Leaving leaving{at, found->second};
  is_live_no_more(found->second);
  blocks_.erase(found);
  leaving_bytes_ += counted(leaving.block.bytes);
  if (leaving.block.is_external) leaving_external_bytes_ += counted(leaving.block.bytes);
  return leaving;
}

void CachingHeap::put_back(const Leaving& leaving) {
  const Bytes bytes = counted(leaving.block.bytes);
  leaving_bytes_ -= bytes;
  if (leaving.block.is_external) leaving_external_bytes_ -= bytes;
  blocks_.insert_or_assign(leaving.at, leaving.block);
  becomes_live(leaving.block);
  counts_.allocated_bytes -= leaving.block.bytes;
  if (!leaving.block.is_external) --counts_.allocations;
}

void CachingHeap::left(const Leaving& leaving) {
  const Bytes bytes = counted(leaving.block.bytes);
  THERMOCLINE_CHECK(bytes <= leaving_bytes_, "what has left was leaving");
  leaving_bytes_ -= bytes;
  if (leaving.block.is_external) {
    leaving_external_bytes_ -= bytes;
  } else {
    counts_.destroyed_bytes += bytes;
  }
  ++returns_;
}

CachingHeap::Leaving CachingHeap::uncache(Blocks::iterator block) {
  const Leaving leaving{block->first, block->second};
  by_size_.erase({leaving.block.bytes, leaving.at});
  blocks_.erase(block);
  cached_bytes_ -= counted(leaving.block.bytes);
  leaving_bytes_ += counted(leaving.block.bytes);
  return leaving;
}

std::vector<CachingHeap::Leaving> CachingHeap::empty_cache() {
  std::vector<Leaving> all;
  all.reserve(by_size_.size());
  while (!by_size_.empty()) all.push_back(uncache(blocks_.find(by_size_.begin()->second)));
  return all;
}

void CachingHeap::forget(Blocks::iterator block) {
  const Bytes bytes = counted(block->second.bytes);
  if (block->second.state == State::kLive) {
    is_live_no_more(block->second);
  } else {
    cached_bytes_ -= bytes;
    by_size_.erase({block->second.bytes, block->first});
  }
  if (!block->second.is_external) counts_.destroyed_bytes += bytes;
  blocks_.erase(block);
}

void CachingHeap::end_of_context(std::uint64_t context) {
  for (auto one = blocks_.begin(); one != blocks_.end();) {
    const auto block = one++;
    if (block->second.context == context) forget(block);
  }
  ++returns_;
}

void CachingHeap::becomes_live(const Block& block) {
  const Bytes bytes = counted(block.bytes);
  live_counted_ += bytes;
  counts_.live_bytes += block.bytes;
  counts_.allocated_bytes += block.bytes;
  if (block.is_external) {
    counts_.external_bytes += bytes;
  } else {
    counts_.block_bytes += bytes;
    ++counts_.live_buffers;
    ++counts_.allocations;
    SizeClass& size_class = counts_.size_classes[SizeClass::of(block.bytes)];
    size_class.live_bytes += block.bytes;
    ++size_class.buffers;
  }
  counts_.largest_allocation_bytes = std::max(counts_.largest_allocation_bytes, block.bytes);
  counts_.peak_live_bytes = std::max(counts_.peak_live_bytes, counts_.live_bytes);
  counts_.peak_live_buffers = std::max(counts_.peak_live_buffers, counts_.live_buffers);
  counts_.peak_device_bytes = std::max(counts_.peak_device_bytes, device_bytes());
}

void CachingHeap::is_live_no_more(const Block& block) {
  const Bytes bytes = counted(block.bytes);
  live_counted_ -= bytes;
  counts_.live_bytes -= block.bytes;
  if (block.is_external) {
    counts_.external_bytes -= bytes;
    return;
  }
  counts_.block_bytes -= bytes;
  --counts_.live_buffers;
  SizeClass& size_class = counts_.size_classes[SizeClass::of(block.bytes)];
  size_class.live_bytes -= block.bytes;
  --size_class.buffers;
}

// External memory that is leaving still is the device's.
CachingHeap::Statistics CachingHeap::statistics() const {
  Statistics all = counts_;
  all.external_bytes += leaving_external_bytes_;
  all.cached_bytes = cached_bytes_;
  all.device_bytes = device_bytes();
  all.out_of_memory = out_of_memory_;
  return all;
}

void CachingHeap::reset_peaks() {
  counts_.peak_live_bytes = counts_.live_bytes;
  counts_.peak_live_buffers = counts_.live_buffers;
  counts_.peak_device_bytes = device_bytes();
  counts_.largest_allocation_bytes = 0;
}

void CachingHeap::validate() const {
  Bytes live = 0, requested = 0, external = 0, cached = 0;
  std::uint64_t buffers = 0, cached_blocks = 0;
  for (const auto& [at, block] : blocks_) {
    if (block.state == State::kLive) {
      live += counted(block.bytes);
      requested += block.bytes;
      external += block.is_external ? counted(block.bytes) : 0;
      buffers += block.is_external ? 0 : 1;
      continue;
    }
    THERMOCLINE_CHECK(!block.is_external, "external memory is not cached");
    cached += counted(block.bytes);
    if (block.state != State::kCached) continue;
    ++cached_blocks;
    THERMOCLINE_CHECK(by_size_.contains({block.bytes, at}), "a cached block is found by its size");
  }
  Bytes of_classes = 0;
  for (const SizeClass& size_class : counts_.size_classes) of_classes += size_class.live_bytes;
  THERMOCLINE_CHECK(by_size_.size() == cached_blocks, "what is found by size is cached");
  THERMOCLINE_CHECK(live == live_counted_ && live == counts_.block_bytes + counts_.external_bytes,
                    "the live bytes are those of the live blocks");
  THERMOCLINE_CHECK(
      requested == counts_.live_bytes && external == counts_.external_bytes && buffers == counts_.live_buffers,
      "the statistics are those of the live blocks");
  THERMOCLINE_CHECK(of_classes <= counts_.live_bytes, "each live buffer is in one class");
  THERMOCLINE_CHECK(cached == cached_bytes_, "the cached bytes are those of the blocks that are not live");
  THERMOCLINE_CHECK(leaving_external_bytes_ <= leaving_bytes_, "external memory that leaves is among what leaves");
  THERMOCLINE_CHECK(
      counts_.created_bytes - counts_.destroyed_bytes + counts_.external_bytes + leaving_external_bytes_ ==
          device_bytes(),
      "what was made and not destroyed is on the device");
  THERMOCLINE_CHECK(budget_ == 0 || taken() <= budget_, "nothing exceeds the budget");
  THERMOCLINE_CHECK(counts_.peak_live_bytes >= counts_.live_bytes, "a peak is not below its value");
}

}  // namespace thermocline
