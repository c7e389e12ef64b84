// SPDX-License-Identifier: Apache-2.0
// Memory outside the device that kernels read in place: pinned, registered and managed allocations. The host writes
// there without a call, so addresses stored there are known only when the memory is read
// (hooks/pointers/tables_in_place.h). Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>

#include "driver/locks.h"
#include "driver/units.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/operands/parameters.h"

namespace thermocline {

enum class HostMemory { kPinned, kManaged };

struct HostAllocation {
  std::uint64_t begin = 0;
  Bytes bytes = 0;
  HostMemory memory = HostMemory::kPinned;
};

// Invariant: allocations do not overlap. A new allocation replaces earlier ones at its addresses, because these must
// have ended, even if their end was not seen.
class HostAllocations {
 public:
  void added(std::uint64_t begin, Bytes bytes, HostMemory memory);
  // Ignores unknown allocations.
  void removed(std::uint64_t begin);

  // The range that all allocations so far lie in; empty until the first.
  OwnRange hull() const {
    const std::uint64_t end = end_.load(std::memory_order_acquire);
    const std::uint64_t begin = begin_.load(std::memory_order_relaxed);
    return {begin, end == 0 ? 0 : end - begin};
  }

  std::optional<HostAllocation> find(std::uint64_t address);

  // Whether the allocation at `begin` is to be read for one more operation that is given an address in it.
  //
  // Reading managed memory moves its pages to the host. So a managed allocation above kSmallBytes in which no address
  // has been found yet is read for the first kFirstReads operations, then for each one that is twice as late.
  bool is_due(std::uint64_t begin);
  // An address was found there: from now on it is read for every operation.
  void holds_addresses(std::uint64_t begin);

  static constexpr Bytes kSmallBytes = 65536;
  static constexpr std::uint64_t kFirstReads = 32;

 private:
  struct Entry {
    Bytes bytes = 0;
    HostMemory memory = HostMemory::kPinned;
    bool holds_addresses = false;
    std::uint64_t operations = 0;  // operations that were given an address in it
  };

  std::map<std::uint64_t, Entry>::iterator at(std::uint64_t address) THERMOCLINE_REQUIRES(mutex_);

  Mutex mutex_{"host allocations", lock_level::kLeaf};
  std::map<std::uint64_t, Entry> all_ THERMOCLINE_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> begin_{~std::uint64_t{0}}, end_{0};
};

HostAllocations& host_allocations();

// Whether there was any allocation: set by host_allocations().added, so that most launches skip the search.
inline std::atomic<bool> any_host_allocation{false};

}  // namespace thermocline
