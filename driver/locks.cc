// SPDX-License-Identifier: Apache-2.0
#include "driver/locks.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace thermocline {
namespace {

// More locks than a thread ever holds; further ones are counted, but neither named nor compared.
constexpr int kMostNamed = 8;

struct Held {
  std::array<const LockLevel*, kMostNamed> mutexes;
  int count;
  int refusing;  // of these, waits

  int named() const { return std::min(count, kMostNamed); }
};
constinit thread_local Held held{};
constinit thread_local int in_place = 0;
constinit thread_local int rooms = 0;
constinit thread_local bool has_asked_to_map = false;

[[noreturn]] void end_with_names() {
  for (int i = 0; i < held.named(); ++i) {
    const LockLevel& one = *held.mutexes[static_cast<std::size_t>(i)];
    std::fprintf(stderr, " %s (level %d)", one.name(), one.level());
  }
  std::fprintf(stderr, "\n");
  std::abort();
}

}  // namespace

// U. Drepper, "Futexes Are Tricky", the second mutex. Spins first, for about as long as others hold the lock.
void detail::WordLock::wait_and_lock() {
  constexpr int kLooks = 100;
  for (int look = 0; look < kLooks; ++look) {
    if (is_free(word_.load(std::memory_order_relaxed)) && try_lock()) return;
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
  }
  static_assert(sizeof word_ == sizeof(std::uint32_t), "The kernel is given its address.");
  while (!is_free(word_.exchange(kWaitedFor, std::memory_order_acquire)))
    syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, std::uint32_t{kWaitedFor}, nullptr, nullptr, 0);
}

void detail::WordLock::wake_one() { syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

void detail::lock_taken(const LockLevel& mutex, bool waited) {
  for (int i = 0; waited && i < held.named(); ++i) {
    if (mutex.level() > held.mutexes[static_cast<std::size_t>(i)]->level()) continue;
    std::fprintf(stderr, "thermocline: lock %s (level %d) is taken out of order, behind:", mutex.name(), mutex.level());
    end_with_names();
  }
  if (held.count < kMostNamed) held.mutexes[static_cast<std::size_t>(held.count)] = &mutex;
  ++held.count;
  held.refusing += mutex.refuses_waits() ? 1 : 0;
}

void detail::lock_given_back(const LockLevel& mutex) {
  const auto end = held.mutexes.begin() + held.named();
  const auto found = std::find(held.mutexes.begin(), end, &mutex);
  // The lock was taken before locks were checked, or is beyond those that are named.
  if (found == end && held.count <= kMostNamed) return;
  if (found != end) std::move(found + 1, end, found);
  --held.count;
  held.refusing -= mutex.refuses_waits() ? 1 : 0;
  if (held.refusing == 0) has_asked_to_map = false;
}

void detail::refuse_to_wait(const char* call) {
  if (held.refusing == 0 || WaitsInPlace::now()) return;
  std::fprintf(stderr, "thermocline: %s waits for the device while a lock is held:", call);
  end_with_names();
}

void detail::refuse_to_queue(const char* call) {
  if (held.refusing == 0 || rooms > 0 || WaitsInPlace::now()) return;
  std::fprintf(stderr, "thermocline: %s may wait for room in a stream's queue while a lock is held:", call);
  end_with_names();
}

void detail::refuse_to_map(const char* call) {
  if (held.refusing == 0 || has_asked_to_map || WaitsInPlace::now()) return;
  std::fprintf(stderr, "thermocline: %s may wait for a blocked stream while a lock is held:", call);
  end_with_names();
}

void detail::note_room_in_queue(bool there_is) { rooms = std::max(0, rooms + (there_is ? 1 : -1)); }
void detail::note_asked_to_map() { has_asked_to_map = held.refusing > 0; }

int locks_held() { return held.refusing; }

WaitsInPlace::WaitsInPlace() { ++in_place; }
WaitsInPlace::~WaitsInPlace() { --in_place; }
bool WaitsInPlace::now() { return in_place > 0; }

}  // namespace thermocline
