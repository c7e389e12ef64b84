// SPDX-License-Identifier: Apache-2.0
// The library's mutexes, and the rule that goes with them: none is held across a call of the driver that waits for the
// device. What it waits for may stand behind a host function, or behind a value, of a thread that needs the lock first.
//
// Where locks_are_checked is set (THERMOCLINE_TEST_LOCKS=1, for tests), each thread knows which it holds, and a call
// that breaks the rule ends the process with their names. The few waits that are known to come to an end by themselves,
// and those that are not mended, say so by a WaitsInPlace.
#pragma once

#include <atomic>
#include <mutex>

namespace thermocline {

inline constinit std::atomic<bool> locks_are_checked{false};

namespace detail {
void lock_taken(const char* name);
void lock_given_back();
void refuse_to_wait(const char* call);
}  // namespace detail

class Mutex {
 public:
  constexpr explicit Mutex(const char* name) : name_(name) {}

  void lock() {
    mutex_.lock();
    if (locks_are_checked.load(std::memory_order_relaxed)) [[unlikely]]
      detail::lock_taken(name_);
  }
  bool try_lock() {
    if (!mutex_.try_lock()) return false;
    if (locks_are_checked.load(std::memory_order_relaxed)) [[unlikely]]
      detail::lock_taken(name_);
    return true;
  }
  void unlock() {
    if (locks_are_checked.load(std::memory_order_relaxed)) [[unlikely]]
      detail::lock_given_back();
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  const char* name_;
};

// Before every call of the driver that waits for the device.
inline void about_to_wait(const char* call) {
  if (locks_are_checked.load(std::memory_order_relaxed)) [[unlikely]]
    detail::refuse_to_wait(call);
}

// How many the calling thread holds; 0 where they are not checked.
int locks_held();

// While one lives its thread may wait with locks held.
class WaitsInPlace {
 public:
  WaitsInPlace();
  ~WaitsInPlace();
  WaitsInPlace(const WaitsInPlace&) = delete;
  WaitsInPlace& operator=(const WaitsInPlace&) = delete;
  static bool now();
};

}  // namespace thermocline
