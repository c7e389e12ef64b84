// SPDX-License-Identifier: Apache-2.0
// What stands in front of the lock: each thread remembers the buffers that it was given last, and a buffer that it
// frees stays parked with it until the thread asks for as many bytes on the same stream again. Neither takes a lock,
// waits for anybody, allocates, or calls the system: one compare-and-swap on a line that is the thread's own.
//
// The heap does not notice. For it a parked buffer lives on, with its place, its pages and its uses; whoever holds the
// owner's lock (the engine's) finds out by hear(), and takes parked buffers back by withdraw() and reclaim(). From that
// follow the rules that keep caches from costing memory or truth, which are the holder's
// (offload/engine/engine_state.cc): before memory grows, before the live bytes set a record, and before anything leaves
// for want of room, everything parked is taken back; and no number counts what is parked as live.
//
// Peers serialise here: a mutex each way is 29 ns of their 50 to 200 (docs/measurements.md).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "allocator/block.h"
#include "driver/driver.h"
#include "driver/units.h"

namespace thermocline {

// What to take back: what is parked and large; whatever is parked; that, and what is handed out (as far as heard of)
// will not be parked either.
enum class Reclaim : std::uint8_t { kLarge, kParked, kForget };

// What caches have done without the lock since they began, and what is parked with them at this moment.
struct CacheTotals {
  std::uint64_t takes = 0, parks = 0;
  Bytes taken_bytes = 0, given_bytes = 0;  // by takes, and by parks
  Bytes parked_bytes = 0;                  // now
  Bytes parked_block_bytes = 0;            // now, of whole blocks
  std::uint64_t parked_buffers = 0;        // now
};

// One thread's. A slot stands for one buffer of the heap that the thread was given; a set of kWays slots, chosen by
// size, is all that is searched.
//
// Invariants: `bytes`, `stream`, `address` and `buffer` of a slot are written by the owner alone, under the lock, while
// the slot is empty; so the owner reads them without it and everybody else with it. A slot that is not empty has a
// buffer of the heap, and the buffer leads back to it. Only the state changes without the lock, by compare-and-swap:
//
//   empty -> out                    remember (owner, locked)
//   out, out_again -> parked_unheard            park (owner)
//   parked_unheard -> out_again, parked -> out  take (owner)
//   out_again -> out, parked_unheard -> parked  hear (holder of the lock)
//   any -> empty                    withdraw (holder of the lock)
//   parked, parked_unheard, out -> empty        reclaim, remember for another one (holder of the lock)
class ThreadCache {
 public:
  static constexpr unsigned kWays = 4;
  static constexpr unsigned kSlots = 64;
  // From here on a parked buffer would be missed where it is: the heap, looking for a place while it stands in the way,
  // would cut up another one (on the recorded workloads up to 40 % of live bytes more were needed).
  static constexpr Bytes kLarge = 16 * kKiB;
  // In place of a stream where none is named.
  static constexpr std::uint64_t kNoStream = ~std::uint64_t{0};

  // By the thread itself. True: `out` is a buffer of that size that it freed on the same stream.
  bool take(Bytes bytes, std::uint64_t stream, DeviceAddress* out);
  // True: the buffer is parked.
  bool park(DeviceAddress address, std::uint64_t stream);

  // By the thread itself, under the lock: the buffer was handed out to it. It may find no slot. The result, unless
  // null, had been parked and made way: it is to be freed.
  Buffer* remember(Buffer& buffer, std::uint64_t stream);

  // Everything below: under the lock.

  // The buffer is about to be freed, or must not be parked any more (then after hear). False when it is parked, that
  // is, not the program's; then nothing has changed.
  static bool withdraw(Buffer& buffer);
  static bool is_parked(const Buffer& buffer);

  // Calls visit(buffer, names_stream) for each buffer that has been freed by one owner and may be another's since this
  // was last called.
  template <class Visit>
  void hear(Visit visit) {
    // The exchange is dearer, and mostly there is none.
    if (!news_.load(std::memory_order_relaxed) || !news_.exchange(false, std::memory_order_acquire)) return;
    parked_bytes_ = 0;
    parked_block_bytes_ = 0;
    parked_large_ = false;
    for (unsigned i = 0; i < kSlots; ++i) {
      State state = states_[i].load(std::memory_order_acquire);
      if (state == State::kEmpty || state == State::kOut) continue;
      if (state == State::kOutAgain || state == State::kParkedUnheard) {
        // The owner may be quicker and change it once more: that is news again.
        const State heard = state == State::kOutAgain ? State::kOut : State::kParked;
        if (!states_[i].compare_exchange_strong(state, heard)) news_.store(true, std::memory_order_relaxed);
        visit(*slots_[i].buffer, slots_[i].stream != kNoStream);
      }
      if (is_parked_state(state)) count_parked(slots_[i]);
    }
  }
  // Calls visit(buffer, names_stream) for every parked buffer that is wanted, which is then in the cache no more.
  template <class Visit>
  void reclaim(Reclaim what, Visit visit) {
    for (unsigned i = 0; i < kSlots; ++i) {
      if (what == Reclaim::kLarge && slots_[i].bytes < kLarge) continue;
      Buffer* const buffer = slots_[i].buffer;
      if (is_parked_state(leave(i, what == Reclaim::kForget))) visit(*buffer, slots_[i].stream != kNoStream);
    }
    // Of what is left the sums are made again.
    news_.store(true, std::memory_order_relaxed);
  }

  // All as of the last hear().
  bool has_large() const { return parked_large_; }
  Bytes parked_bytes() const { return parked_bytes_; }
  // Of whole blocks that are parked.
  Bytes parked_block_bytes() const { return parked_block_bytes_; }

  // Adds what is so now, heard of or not, and changes nothing. What the thread does meanwhile may be in one number and
  // not yet in another.
  template <class Visit>
  void add_totals(CacheTotals* totals, Visit visit_parked) const {
    totals->takes += past_.takes;
    totals->parks += past_.parks;
    totals->taken_bytes += past_.taken_bytes;
    totals->given_bytes += past_.given_bytes;
    for (unsigned i = 0; i < kSlots; ++i) {
      const std::uint64_t takes = takes_of(i);
      totals->takes += takes;
      totals->taken_bytes += takes * slots_[i].bytes;
      // Whoever took it had parked it.
      totals->parks += takes;
      totals->given_bytes += takes * slots_[i].bytes;
      if (!is_parked_state(states_[i].load(std::memory_order_acquire))) continue;
      ++totals->parks;
      totals->given_bytes += slots_[i].bytes;
      ++totals->parked_buffers;
      totals->parked_bytes += slots_[i].bytes;
      const Block& block = slots_[i].buffer->block();
      if (!block.is_slab()) totals->parked_block_bytes += block.bytes();
      visit_parked(*slots_[i].buffer);
    }
  }

  // The thread has ended, or has gone to another engine. By the thread.
  bool empty() const;
  void abandon() { abandoned_.store(true, std::memory_order_release); }
  bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }

  void validate() const;

 private:
  enum class State : std::uint8_t {
    kEmpty,
    kOut,            // handed out, and heard of
    kOutAgain,       // parked and handed out again since
    kParked,         // heard of
    kParkedUnheard,  // parked since
  };
  struct Slot {
    Bytes bytes = 0;
    std::uint64_t stream = 0;
    DeviceAddress address;
    Buffer* buffer = nullptr;
  };
  static constexpr unsigned kSets = kSlots / kWays;
  static constexpr unsigned kPlaces = 256;

  static bool is_parked_state(State state) { return state == State::kParked || state == State::kParkedUnheard; }
  // Fibonacci hashing: the upper bits of a product with 2^64 / phi.
  static unsigned set_of(Bytes bytes) { return static_cast<unsigned>((bytes * 0x9E3779B97F4A7C15u) >> 60) * kWays; }
  static unsigned place_of(DeviceAddress address) {
    return static_cast<unsigned>((address.value * 0x9E3779B97F4A7C15u) >> 56);
  }
  static_assert(kSets == 16 && kPlaces == 256, "The hashes give so many bits.");

  State leave(unsigned slot, bool out_too);
  // Of the buffer that the slot stands for, or stood for last.
  std::uint64_t takes_of(unsigned slot) const {
    return takes_[slot].load(std::memory_order_relaxed) - takes_before_[slot];
  }
  void count_parked(const Slot& slot);
  std::optional<unsigned> make_way(unsigned set, Buffer** displaced);

  // One line: what both sides write.
  alignas(64) std::array<std::atomic<State>, kSlots> states_{};
  // The owner's.
  alignas(64) std::atomic<bool> news_{false};
  std::atomic<bool> abandoned_{false};
  std::uint8_t next_way_ = 0;
  std::array<std::atomic<std::uint64_t>, kSlots> takes_{};  // by slot, never set back
  std::array<std::uint8_t, kPlaces> slot_at_{};             // by place_of: where the address may be found
  std::array<Slot, kSlots> slots_{};
  // The lock's.
  Bytes parked_bytes_ = 0;
  Bytes parked_block_bytes_ = 0;
  bool parked_large_ = false;
  std::array<std::uint64_t, kSlots> takes_before_{};  // takes_ when the slot got its buffer
  CacheTotals past_;                                  // of former buffers; and parks that ended in the heap
};

// All threads' caches in front of one heap. At most kMost threads have one; the others always take the lock.
class ThreadCaches {
 public:
  static constexpr std::size_t kMost = 64;

  ThreadCaches();
  ~ThreadCaches();
  ThreadCaches(const ThreadCaches&) = delete;
  ThreadCaches& operator=(const ThreadCaches&) = delete;

  // Without the lock.
  bool take(Bytes bytes, std::optional<StreamHandle> stream, DeviceAddress* out) const {
    ThreadCache* const cache = mine();
    return cache != nullptr && cache->take(bytes, key_of(stream), out);
  }
  bool park(DeviceAddress address, std::optional<StreamHandle> stream) const {
    ThreadCache* const cache = mine();
    return cache != nullptr && cache->park(address, key_of(stream));
  }

  // Everything below: under the lock.

  // The calling thread has no cache, and there is room for one once everything is reclaimed.
  bool may_join() const;
  // See ThreadCache. The calling thread gets a cache when it has none.
  Buffer* remember(Buffer& buffer, std::optional<StreamHandle> stream);
  template <class Visit>
  void hear(Visit visit) {
    for (const auto& cache : caches_) cache->hear(visit);
  }
  // Afterwards nothing of it is parked but what other threads park meanwhile. True if anything was.
  template <class Visit>
  bool reclaim(Reclaim what, Visit visit) {
    bool any = false;
    for (const auto& cache : caches_) {
      cache->reclaim(cache->abandoned() ? Reclaim::kForget : what, [&](Buffer& buffer, bool names_stream) {
        any = true;
        visit(buffer, names_stream);
      });
    }
    retire_abandoned();
    return any;
  }

  // As of the last hear().
  bool has_large() const;
  Bytes parked_bytes() const;
  Bytes parked_block_bytes() const;

  // Everything as of now; calls visit(buffer) for each that is parked. Changes nothing.
  template <class Visit>
  CacheTotals totals(Visit visit_parked) const {
    CacheTotals all = retired_;
    for (const auto& cache : caches_) cache->add_totals(&all, visit_parked);
    return all;
  }
  CacheTotals totals() const {
    return totals([](const Buffer&) {});
  }

  void validate() const;

 private:
  // The calling thread's, or null.
  ThreadCache* mine() const { return here.caches == number_ ? here.cache : nullptr; }
  static std::uint64_t key_of(std::optional<StreamHandle> stream) {
    return stream.has_value() ? static_cast<std::uint64_t>(*stream) : ThreadCache::kNoStream;
  }
  ThreadCache* join();
  void retire_abandoned();

  // Where the calling thread belongs. A number is never given again, so the pointer of one that matches is good.
  struct Here {
    std::uint64_t caches = 0;
    ThreadCache* cache = nullptr;
    bool ended = false;  // the thread's destructors are running
  };
  struct Membership;
  static constinit thread_local Here here;

  const std::uint64_t number_;
  std::vector<std::shared_ptr<ThreadCache>> caches_;
  CacheTotals retired_;  // of caches that are gone
};

}  // namespace thermocline
