// SPDX-License-Identifier: Apache-2.0
// The library's mutexes, and the rule for them: no mutex is held during a driver call that waits for the device. The
// work that the call waits for may itself depend on a host function, or on a value to be written, of a thread that
// needs the mutex first: that would be a deadlock.
//
// If locks_are_checked is set (THERMOCLINE_TEST_LOCKS=1, for tests), each thread tracks the mutexes it holds, and a
// call that breaks the rule ends the process and prints their names. The few waits that are known to end by themselves,
// and those that still break the rule, are marked by a WaitsInPlace.
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

// Called before every driver call that waits for the device.
inline void about_to_wait(const char* call) {
  if (locks_are_checked.load(std::memory_order_relaxed)) [[unlikely]]
    detail::refuse_to_wait(call);
}

// Number of mutexes that the calling thread holds; 0 if they are not checked.
int locks_held();

// While an object of this class lives, its thread may wait for the device with mutexes held.
class WaitsInPlace {
 public:
  WaitsInPlace();
  ~WaitsInPlace();
  WaitsInPlace(const WaitsInPlace&) = delete;
  WaitsInPlace& operator=(const WaitsInPlace&) = delete;
  static bool now();
};

}  // namespace thermocline
