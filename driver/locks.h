// SPDX-License-Identifier: Apache-2.0
// The library's mutexes, and the two rules that go with them.
//
// 1. No mutex is held across a driver call that waits for the device. The device may be waiting for a host function, or
//    for a value, of a thread that needs the mutex first.
// 2. A thread takes mutexes in rising order of their levels. Each layer declares its levels in one place:
//    hooks/interpose/lock_levels.h, offload/lock_levels.h, allocator/lock_levels.h. Two of one level are
//    never held together.
//
// Where locks_are_checked is set (THERMOCLINE_TEST_LOCKS=1, for tests), each thread knows which mutexes it holds, and a
// call that breaks a rule ends the process with their names. The few waits that are known to end by themselves, and
// those that are not mended, are marked by a WaitsInPlace. The layer test finds mutexes of other types.
//
// Clang checks, as part of ./dev check, that data THERMOCLINE_GUARDED_BY a mutex is used with the mutex held. It can
// not check the order: acquired_before and acquired_after compare mutexes that one function names, and here the second
// is nearly always taken by a function of another layer (a hook holds "runtime" and calls an engine, which takes its
// own, of which there is one a device). So the order is one number a mutex, checked when it is taken.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

// https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#ifdef __clang__
#define THERMOCLINE_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define THERMOCLINE_THREAD_ATTRIBUTE(x)
#endif
#define THERMOCLINE_GUARDED_BY(mutex) THERMOCLINE_THREAD_ATTRIBUTE(guarded_by(mutex))
#define THERMOCLINE_REQUIRES(...) THERMOCLINE_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define THERMOCLINE_ACQUIRE(...) THERMOCLINE_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define THERMOCLINE_TRY_ACQUIRE(...) THERMOCLINE_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define THERMOCLINE_ACQUIRE_SHARED(...) THERMOCLINE_THREAD_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define THERMOCLINE_RELEASE(...) THERMOCLINE_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define THERMOCLINE_RELEASE_SHARED(...) THERMOCLINE_THREAD_ATTRIBUTE(release_shared_capability(__VA_ARGS__))
#define THERMOCLINE_RELEASE_ANY(...) THERMOCLINE_THREAD_ATTRIBUTE(release_generic_capability(__VA_ARGS__))
#define THERMOCLINE_NOT_ANALYSED THERMOCLINE_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace thermocline {

inline constinit std::atomic<bool> locks_are_checked{false};

// A mutex as the checks know it.
class LockLevel {
 public:
  // kForgiven: rule 1 does not hold for it; where it is declared stands why.
  enum class Waits : bool { kRefused, kForgiven };
  constexpr LockLevel(const char* name, int level, Waits waits = Waits::kRefused)
      : name_(name), level_(level), waits_(waits) {}

  const char* name() const { return name_; }
  int level() const { return level_; }
  bool refuses_waits() const { return waits_ == Waits::kRefused; }

 private:
  const char* name_;
  int level_;
  Waits waits_;
};

namespace detail {

// A lock of one word that waits in the kernel. Taking and releasing it without a wait costs 15 instructions; a
// pthread_mutex_t costs 130, more than half of an allocation (bench/results/instructions.json).
class WordLock {
 public:
  void lock() {
    if (!take_from(kFree) && !try_lock_again()) [[unlikely]]
      wait_and_lock();
  }
  bool try_lock() { return take_from(kFree) || try_lock_again(); }
  void unlock() { release_to(kFree); }
  // Only if it was released by unlock_as_it_was(), and nobody has taken it since. So two functions that take it by turns
  // in this way alone know that what they noted under the lock has not been changed by anybody else.
  bool try_lock_again() { return take_from(kFreeAsItWas); }
  void unlock_as_it_was() { release_to(kFreeAsItWas); }

 private:
  // kWaitedFor: taken, and a thread may be asleep until it is released.
  enum Word : std::uint32_t { kFree, kTaken, kWaitedFor, kFreeAsItWas };

  static bool is_free(std::uint32_t word) { return word == kFree || word == kFreeAsItWas; }
  bool take_from(Word free) {
    std::uint32_t is = free;
    return word_.compare_exchange_strong(is, kTaken, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void release_to(Word free) {
    if (word_.exchange(free, std::memory_order_release) == kWaitedFor) [[unlikely]]
      wake_one();
  }

  void wait_and_lock();
  void wake_one();

  std::atomic<std::uint32_t> word_{kFree};
};

// `waited`: false if the thread took the lock without a chance to wait, and so cannot dead-lock.
void lock_taken(const LockLevel& mutex, bool waited);
void lock_given_back(const LockLevel& mutex);
void refuse_to_wait(const char* call);
void refuse_to_queue(const char* call);
void refuse_to_map(const char* call);
void note_room_in_queue(bool there_is);
void note_asked_to_map();
}  // namespace detail

// The word comes first: what takes a mutex then needs no address but the mutex's.
class THERMOCLINE_THREAD_ATTRIBUTE(capability("mutex")) Mutex : detail::WordLock, public LockLevel {
 public:
  constexpr Mutex(const char* name, int level) : LockLevel(name, level) {}

  void lock() THERMOCLINE_ACQUIRE() {
    if (locks_are_checked.load(std::memory_order_relaxed)) [[unlikely]]
      detail::lock_taken(*this, true);
    WordLock::lock();
  }
  bool try_lock() THERMOCLINE_TRY_ACQUIRE(true) {
    if (!WordLock::try_lock()) return false;
    if (locks_are_checked.load(std::memory_order_relaxed)) [[unlikely]]
      detail::lock_taken(*this, false);
    return true;
  }
  void unlock() THERMOCLINE_RELEASE() {
    if (locks_are_checked.load(std::memory_order_relaxed)) [[unlikely]]
      detail::lock_given_back(*this);
    WordLock::unlock();
  }
  // Without a call to anybody: false also where the rules are checked. Given back by any function.
  bool try_lock_at_once() THERMOCLINE_TRY_ACQUIRE(true) {
    return !locks_are_checked.load(std::memory_order_relaxed) && WordLock::try_lock();
  }
  // See WordLock. The rules are not looked at: where they are checked, nobody calls unlock_as_it_was().
  bool try_lock_again() THERMOCLINE_TRY_ACQUIRE(true) { return WordLock::try_lock_again(); }
  void unlock_as_it_was() THERMOCLINE_RELEASE() { WordLock::unlock_as_it_was(); }
};

// Held by many readers or by one writer. The same rules hold for readers, and a thread holds it once at a time: behind
// a waiting writer, a second lock_shared() may wait for ever.
class THERMOCLINE_THREAD_ATTRIBUTE(capability("mutex")) SharedMutex : public LockLevel {
 public:
  using LockLevel::LockLevel;

  void lock() THERMOCLINE_ACQUIRE() {
    note_taken();
    mutex_.lock();
  }
  void unlock() THERMOCLINE_RELEASE() {
    note_given_back();
    mutex_.unlock();
  }
  void lock_shared() THERMOCLINE_ACQUIRE_SHARED() {
    note_taken();
    mutex_.lock_shared();
  }
  void unlock_shared() THERMOCLINE_RELEASE_SHARED() {
    note_given_back();
    mutex_.unlock_shared();
  }

 private:
  void note_taken() {
    if (locks_are_checked.load(std::memory_order_relaxed)) [[unlikely]]
      detail::lock_taken(*this, true);
  }
  void note_given_back() {
    if (locks_are_checked.load(std::memory_order_relaxed)) [[unlikely]]
      detail::lock_given_back(*this);
  }

  std::shared_mutex mutex_;
};

class THERMOCLINE_THREAD_ATTRIBUTE(scoped_lockable) ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) THERMOCLINE_ACQUIRE_SHARED(mutex) : mutex_(mutex) { mutex_.lock_shared(); }
  ~ReaderLock() THERMOCLINE_RELEASE_ANY() { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class THERMOCLINE_THREAD_ATTRIBUTE(scoped_lockable) WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) THERMOCLINE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~WriterLock() THERMOCLINE_RELEASE() { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// std::unique_lock, as clang understands it. `lock` and `unlock` are for waits in between.
class THERMOCLINE_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) THERMOCLINE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() THERMOCLINE_RELEASE() {
    if (holds_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() THERMOCLINE_ACQUIRE() {
    mutex_.lock();
    holds_ = true;
  }
  void unlock() THERMOCLINE_RELEASE() {
    holds_ = false;
    mutex_.unlock();
  }

 private:
  Mutex& mutex_;
  bool holds_ = true;
};

// Called before every driver call that waits for the device, whatever it is given.
inline void about_to_wait(const char* call) {
  if (locks_are_checked.load(std::memory_order_relaxed)) [[unlikely]]
    detail::refuse_to_wait(call);
}

// Calls that only sometimes wait: they may be made with a lock held after a check that they will not wait now.
//
// A call that adds to a stream waits while the stream's queue is full. So its caller must have made sure that there is
// room, which queue_has_room records. Nothing is checked before queues are counted (stream_queues.h).
inline std::atomic<bool> queues_are_counted{false};
inline void about_to_queue(const char* call) {
  if (locks_are_checked.load(std::memory_order_relaxed) && queues_are_counted.load(std::memory_order_relaxed))
      [[unlikely]]
    detail::refuse_to_queue(call);
}
inline void queue_has_room(bool there_is) {
  if (locks_are_checked.load(std::memory_order_relaxed)) [[unlikely]]
    detail::note_room_in_queue(there_is);
}

// A mapping call waits for blocked streams, with drivers that were found to do so. So its caller must have checked
// whether any stream is blocked, since the thread took the first of the locks that it holds.
inline std::atomic<bool> mapping_waits_for_streams{false};
inline void about_to_map(const char* call) {
  if (locks_are_checked.load(std::memory_order_relaxed) && mapping_waits_for_streams.load(std::memory_order_relaxed))
      [[unlikely]]
    detail::refuse_to_map(call);
}
inline void mapping_may_be_called() {
  if (locks_are_checked.load(std::memory_order_relaxed)) [[unlikely]]
    detail::note_asked_to_map();
}

// Number of mutexes that the calling thread holds and that refuse waits; 0 if they are not checked.
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
