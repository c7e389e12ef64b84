// SPDX-License-Identifier: Apache-2.0
#include "hooks/operands/host_allocations.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "hooks/interpose/process_lifetime.h"

namespace thermocline {

std::map<std::uint64_t, HostAllocations::Entry>::iterator HostAllocations::at(std::uint64_t address) {
  const auto above = all_.upper_bound(address);
  if (above == all_.begin()) return all_.end();
  const auto found = std::prev(above);
  return address - found->first < found->second.bytes ? found : all_.end();
}

void HostAllocations::added(std::uint64_t begin, Bytes bytes, HostMemory memory) {
  if (bytes == 0) return;
  any_host_allocation.store(true, std::memory_order_relaxed);
  const MutexLock lock(mutex_);
  auto first = at(begin);
  if (first == all_.end()) first = all_.lower_bound(begin);
  all_.erase(first, all_.lower_bound(begin + bytes));
  all_[begin] = {.bytes = bytes, .memory = memory};
  // The end is stored last: a thread that sees it sees the beginning, too.
  begin_.store(std::min(begin_.load(std::memory_order_relaxed), begin), std::memory_order_relaxed);
  end_.store(std::max(end_.load(std::memory_order_relaxed), begin + bytes), std::memory_order_release);
}

void HostAllocations::removed(std::uint64_t begin) {
  const MutexLock lock(mutex_);
  all_.erase(begin);
}

std::optional<HostAllocation> HostAllocations::find(std::uint64_t address) {
  const MutexLock lock(mutex_);
  const auto found = at(address);
  if (found == all_.end()) return std::nullopt;
  return HostAllocation{found->first, found->second.bytes, found->second.memory};
}

bool HostAllocations::is_due(std::uint64_t begin) {
  const MutexLock lock(mutex_);
  const auto found = all_.find(begin);
  if (found == all_.end()) return false;
  Entry& entry = found->second;
  const std::uint64_t number = ++entry.operations;
  return entry.memory == HostMemory::kPinned || entry.bytes <= kSmallBytes || entry.holds_addresses ||
         number <= kFirstReads || std::has_single_bit(number);
}

void HostAllocations::holds_addresses(std::uint64_t begin) {
  const MutexLock lock(mutex_);
  if (const auto found = all_.find(begin); found != all_.end()) found->second.holds_addresses = true;
}

HostAllocations& host_allocations() { return process_lifetime<HostAllocations>(); }

}  // namespace thermocline
