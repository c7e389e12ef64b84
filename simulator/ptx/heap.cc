// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/heap.h"

#include <iterator>

namespace simulator::ptx {

Heap::Heap(std::uint64_t address, std::uint64_t bytes) {
  if (bytes != 0) free_[address] = bytes;
}

std::uint64_t Heap::allocate(std::uint64_t bytes) {
  constexpr std::uint64_t kAlignment = 16;
  if (bytes > UINT64_MAX - kAlignment) return 0;
  const std::uint64_t taken = bytes == 0 ? kAlignment : (bytes + kAlignment - 1) / kAlignment * kAlignment;
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [at, room] = *range;
    if (room < taken) continue;
    free_.erase(range);
    if (room > taken) free_[at + taken] = room - taken;
    used_[at] = taken;
    return at;
  }
  return 0;
}

bool Heap::free(std::uint64_t at) {
  const auto found = used_.find(at);
  if (found == used_.end()) return false;
  const std::uint64_t bytes = found->second;
  used_.erase(found);
  auto range = free_.emplace(at, bytes).first;
  if (const auto next = std::next(range); next != free_.end() && range->first + range->second == next->first) {
    range->second += next->second;
    free_.erase(next);
  }
  if (range != free_.begin()) {
    const auto before = std::prev(range);
    if (before->first + before->second == range->first) {
      before->second += range->second;
      free_.erase(range);
    }
  }
  return true;
}

Heap& heap_of(const Launch& launch) {
  struct KnownHeap {
    std::uint64_t generation;
    Heap heap;
  };
  static auto& all = *new std::map<std::uint64_t, KnownHeap>;  // by address; only one kernel runs at a time
  const auto found = all.find(launch.heap);
  if (found != all.end() && found->second.generation == launch.heap_generation) return found->second.heap;
  return all.insert_or_assign(launch.heap, KnownHeap{launch.heap_generation, Heap(launch.heap, launch.heap_bytes)})
      .first->second.heap;
}

}  // namespace simulator::ptx
