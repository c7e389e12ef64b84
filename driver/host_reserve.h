// SPDX-License-Identifier: Apache-2.0
// Host memory that is kept for calls that have begun when the process runs out of it. Where such a call ended by an exception,
// the engine's state would be half changed; so operator new takes from the reserve where malloc has nothing
// (host_reserve_new.cc, linked into the library), and a call begins only while the reserve has enough: otherwise it is refused
// as out of memory. A call that needs more than that still ends by std::bad_alloc. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace thermocline {

class HostReserve {
 public:
  // A call may begin while half of a region is unused.
  static constexpr std::size_t kRegionBytes = std::size_t{8} << 20, kRegions = 8;

  // Whether a call may begin. Opens the first region, and another one where less than half of the present one is left.
  static bool has_enough() { return has_enough_.load(std::memory_order_relaxed) || open_region(); }

  // Throws std::bad_alloc where there is not enough. Call it before anything changes.
  static void require() {
    if (!has_enough()) throw std::bad_alloc();
  }

  // Null: there is no more, or the thread leaves the reserve alone.
  static void* take(std::size_t bytes, std::size_t alignment) noexcept;
  // False: the memory is not from the reserve.
  static bool give(void* at) noexcept {
    const std::uintptr_t distance = reinterpret_cast<std::uintptr_t>(at) - begin_.load(std::memory_order_relaxed);
    return distance < kRegions * kRegionBytes && give_back(at);
  }

  // This thread does work that may fail, such as planning.
  static void leave_alone() noexcept;

  // For tests: whether the system has memory for another region.
  static inline bool (*system_has_memory)() = nullptr;

 private:
  static bool open_region() noexcept;
  static bool give_back(void* at) noexcept;

  static inline constinit std::atomic<bool> has_enough_{false};
  static inline constinit std::atomic<std::uintptr_t> begin_{0};  // of the addresses of all regions; 0: there are none
};

}  // namespace thermocline
