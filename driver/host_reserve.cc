// SPDX-License-Identifier: Apache-2.0
#include "driver/host_reserve.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>

namespace thermocline {
namespace {

constexpr std::size_t kEnough = HostReserve::kRegionBytes / 2;

// Memory is taken from the beginning on; when all of it has been given back, from the beginning again.
struct Region {
  bool is_open = false;  // it has memory
  std::size_t used = 0;  // bytes
  std::size_t live = 0;  // blocks that have not been given back

  bool has_enough() const { return is_open && HostReserve::kRegionBytes - used >= kEnough; }
};

// Not a Mutex: operator new may be called while any of these is held, and the check of their order calls it.
class Exclusive {
 public:
  Exclusive() {
    while (is_held_.test_and_set(std::memory_order_acquire)) sched_yield();
  }
  ~Exclusive() { is_held_.clear(std::memory_order_release); }
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;

 private:
  static inline constinit std::atomic_flag is_held_;
};

constinit std::array<Region, HostReserve::kRegions> regions;
constinit std::size_t present = 0;  // from which memory is taken
thread_local bool may_take = true;

}  // namespace

void HostReserve::leave_alone() noexcept { may_take = false; }

void* HostReserve::take(std::size_t bytes, std::size_t alignment) noexcept {
  if (!may_take) return nullptr;
  const Exclusive exclusive;
  Region& region = regions[present];
  const std::size_t at = (region.used + alignment - 1) / alignment * alignment;
  if (!region.is_open || at > kRegionBytes || bytes > kRegionBytes - at) return nullptr;
  region.used = at + bytes;
  ++region.live;
  has_enough_.store(region.has_enough(), std::memory_order_relaxed);
  return reinterpret_cast<void*>(begin_.load(std::memory_order_relaxed) + present * kRegionBytes + at);
}

bool HostReserve::give_back(void* at) noexcept {
  const Exclusive exclusive;
  // Before there was a reserve the address was compared with none, and the heap of a program may be at low addresses.
  const std::uintptr_t begin = begin_.load(std::memory_order_relaxed);
  const std::size_t number = (reinterpret_cast<std::uintptr_t>(at) - begin) / kRegionBytes;
  if (begin == 0 || number >= kRegions) return false;
  Region& region = regions[number];
  if (--region.live == 0) region.used = 0;
  if (number == present) has_enough_.store(region.has_enough(), std::memory_order_relaxed);
  return true;
}

bool HostReserve::open_region() noexcept {
  const Exclusive exclusive;
  if (begin_.load(std::memory_order_relaxed) == 0) {
    void* const all =
        mmap(nullptr, kRegions * kRegionBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return false;
    begin_.store(reinterpret_cast<std::uintptr_t>(all), std::memory_order_relaxed);
  }
  auto next = std::ranges::find_if(regions, &Region::has_enough);
  if (next == regions.end()) {
    next = std::ranges::find(regions, false, &Region::is_open);
    if (next == regions.end() || (system_has_memory != nullptr && !system_has_memory())) return false;
    const std::uintptr_t at =
        begin_.load(std::memory_order_relaxed) + static_cast<std::size_t>(next - regions.begin()) * kRegionBytes;
    if (mprotect(reinterpret_cast<void*>(at), kRegionBytes, PROT_READ | PROT_WRITE) != 0) return false;
    next->is_open = true;
  }
  present = static_cast<std::size_t>(next - regions.begin());
  has_enough_.store(true, std::memory_order_relaxed);
  return true;
}

}  // namespace thermocline
