// SPDX-License-Identifier: Apache-2.0
// Per-thread caches in front of the lock. Each thread remembers the buffers that it was given last. A buffer that the
// thread frees is cached until the same thread asks for the same number of bytes on the same stream again.
// Neither operation takes a lock, waits, allocates, or makes a system call: one compare-and-swap on a cache line that
// belongs to the thread.
//
// For the heap a cached buffer is still live, with its address, its pages and its uses. The holder of the owner's lock
// (the engine's) learns of changes with note_changes(), and takes cached buffers back with withdraw() and reclaim().
// Three rules keep caches from costing memory or falsifying statistics; the lock holder has to observe them
// (offload/engine/engine_state.cc): all cached buffers are taken back before memory grows, before live bytes exceed
// their peak, and before anything is evicted for lack of room. No statistic counts a cached buffer as live.
//
// For comparison, other allocators lock a mutex in each direction, which is 29 ns of their 50 to 200 ns
// (docs/measurements.md).
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "allocator/block.h"
#include "driver/driver.h"
#include "driver/hash.h"
#include "driver/units.h"

namespace thermocline {

// Which buffers to take back. kLarge: cached buffers that are large. kCached: all cached buffers. kForget: all cached
// buffers; and buffers that are handed out (as far as noted) will not be cached later.
enum class Reclaim : std::uint8_t { kLarge, kCached, kForget };

// Counts of the operations that caches have done without the lock so far, and of the buffers cached in them now.
struct CacheTotals {
  std::uint64_t takes = 0, puts = 0;
  Bytes taken_bytes = 0, given_bytes = 0;  // by takes, and by puts
  Bytes cached_bytes = 0;                  // now
  Bytes cached_block_bytes = 0;            // now; only buffers with a block of their own, whole blocks
  std::uint64_t cached_buffers = 0;        // now
};

// The cache of one thread. A slot stands for one buffer of the heap that the thread was given. A set of kWays slots,
// chosen by size, is all that is searched.
//
// Invariants: the size, stream, address and buffer of a slot are written only by the owner thread, under the lock,
// while the slot is empty. So the owner reads them without the lock, and everybody else with it. A slot that is not
// empty has a buffer of the heap, and that buffer refers back to the slot. Only the state changes without the lock, by
// compare-and-swap:
//
//   empty -> out                                remember (owner, locked)
//   out, out_again -> cached_unnoted            put (owner)
//   cached_unnoted -> out_again, cached -> out  take (owner)
//   out_again -> out, cached_unnoted -> cached  note_changes (holder of the lock)
//   any -> empty                                withdraw (holder of the lock)
//   cached, cached_unnoted, out -> empty        reclaim, or remember of another buffer (holder of the lock)
class ThreadCache {
 public:
  static constexpr unsigned kWays = 4;
  static constexpr unsigned kSlots = 64;
  // Cached buffers of this size or more are taken back when the heap looks for space: otherwise the heap would cut up
  // another free chunk instead of theirs (on the recorded workloads up to 40 % of live bytes more were needed).
  static constexpr Bytes kLarge = 16 * kKiB;
  // In place of a stream handle if none is named.
  static constexpr std::uint64_t kNoStream = ~std::uint64_t{0};

  // Called by the owner thread. True: `out` is a buffer of that size that the thread freed on the same stream.
  bool take(Bytes bytes, std::uint64_t stream, DeviceAddress* out);
  // take() if the first slot of that size has the buffer, or if no slot of its set has one; kPerhaps: another slot may
  // have it.
  enum class Taken : std::uint8_t { kYes, kNo, kPerhaps };
  [[gnu::always_inline]] Taken take_first(Bytes bytes, std::uint64_t stream, DeviceAddress* out) {
    const unsigned set = set_of(bytes);
    if ((states_of_set(set) & kCachedBits) == 0) [[likely]]
      return Taken::kNo;
    unsigned i = set;
    if (bytes_[i] != bytes && bytes_[++i] != bytes && bytes_[++i] != bytes && bytes_[++i] != bytes) return Taken::kNo;
    static_assert(kWays == 4, "All ways are searched.");
    return take_from(i, stream, out) ? Taken::kYes : Taken::kPerhaps;
  }
  // False: take() has nothing.
  bool may_have(Bytes bytes) const { return (states_of_set(set_of(bytes)) & kCachedBits) != 0; }
  // True: the buffer is cached.
  [[gnu::always_inline]] bool put(DeviceAddress address, std::uint64_t stream) {
    const unsigned i = slot_at_[place_of(address)];
    if (addresses_[i] != address.value || streams_[i] != stream) return false;
    State state = states_[i].load(std::memory_order_relaxed);
    while ((state & kCached) == kOut) {
      if (!states_[i].compare_exchange_weak(state, kCachedUnnoted)) continue;
      changed_.store(true, std::memory_order_release);
      return true;
    }
    return false;
  }

  // Called by the owner thread, under the lock, when it allocates what take() did not have: false the first time, and
  // if it has asked for other sizes since. A buffer of a size that does not come again is not worth remembering, nor is
  // one that another thread will free: after freed_by_another the result is false kSkipped times. Nor is one that will
  // be taken back, or displaced, before the thread asks for its size: then the result is false once, and twice as often
  // each time that it happens again, up to kSkipped times, until a buffer of that size has been taken from the cache.
  static constexpr std::uint32_t kSkipped = 1023;
  bool has_asked_for(Bytes bytes) {
    Asked& newest = asked_for_[place_of_size(bytes)];
    if (newest.bytes != bytes) {
      newest = {.bytes = bytes};
      return false;
    }
    if (newest.skips == 0) return true;
    --newest.skips;
    return false;
  }

  // Called by the owner thread, under the lock, for a buffer that was handed out to it. There may be no free slot. If
  // the result is not null, it is a cached buffer that was displaced and must be freed.
  Buffer* remember(Buffer& buffer, std::uint64_t stream);

  // Everything below must be called under the lock.

  // The buffer is about to be freed, or must not be cached any more (then to be called after note_changes()). False if
  // the buffer is cached, that is, the program has already freed it; then nothing has changed.
  static bool withdraw(Buffer& buffer) { return buffer.cache_ == nullptr || withdraw_from(buffer); }
  // The cache of the thread that the buffer was handed out to, if it was remembered; null: it was not.
  static ThreadCache* of(const Buffer& buffer) { return buffer.cache_; }
  // Another thread freed a buffer of that size that was handed out to this cache's thread.
  void freed_by_another(Bytes bytes) {
    if (Asked& newest = asked_for_[place_of_size(bytes)]; newest.bytes == bytes) newest.skips = kSkipped;
  }
  static bool is_cached(const Buffer& buffer);

  // Calls visit(buffer, names_stream) for each buffer that has been freed by one owner, and possibly been handed out to
  // another one, since the last call.
  template <class Visit>
  void note_changes(Visit visit) {
    // The load avoids the more expensive exchange in the common case, when nothing has changed.
    if (!changed_.load(std::memory_order_relaxed) || !changed_.exchange(false, std::memory_order_acquire)) return;
    cached_bytes_ = 0;
    cached_block_bytes_ = 0;
    cached_large_ = false;
    for_each_slot(kCachedBits | kUnnotedBits, [&](unsigned i, State state) {
      if (state == kOutAgain || state == kCachedUnnoted) {
        // If the owner thread changes the state once more at the same moment, it sets changed_ again.
        const State noted = state == kOutAgain ? kOut : kCached;
        if (!states_[i].compare_exchange_strong(state, noted)) changed_.store(true, std::memory_order_relaxed);
        visit(*buffers_[i], streams_[i] != kNoStream);
      }
      if (is_cached_state(state)) count_cached(i);
    });
  }
  // Calls visit(buffer, names_stream) for every cached buffer that `what` selects; the buffer is then no longer in the
  // cache.
  template <class Visit>
  void reclaim(Reclaim what, Visit visit) {
    for_each_slot(what == Reclaim::kForget ? ~SetStates{0} : kCachedBits, [&](unsigned i, State) {
      if (what == Reclaim::kLarge && bytes_[i] < kLarge) return;
      Buffer* const buffer = buffers_[i];
      if (is_cached_state(leave(i, what == Reclaim::kForget))) visit(*buffer, streams_[i] != kNoStream);
    });
    // Makes the next note_changes() recompute the sums for the remaining buffers.
    changed_.store(true, std::memory_order_relaxed);
  }

  // As of the last note_changes().
  bool has_large() const { return cached_large_; }
  Bytes cached_bytes() const { return cached_bytes_; }
  // The block sizes of cached buffers that have blocks of their own.
  Bytes cached_block_bytes() const { return cached_block_bytes_; }

  // Adds the current values, including changes not noted yet, and changes nothing. A change that the thread makes at
  // the same time may be in one number and not yet in another.
  template <class Visit>
  void add_totals(CacheTotals* totals, Visit visit_cached) const {
    totals->takes += past_.takes;
    totals->puts += past_.puts;
    totals->taken_bytes += past_.taken_bytes;
    totals->given_bytes += past_.given_bytes;
    for (unsigned i = 0; i < kSlots; ++i) {
      const std::uint64_t takes = takes_of(i);
      totals->takes += takes;
      totals->taken_bytes += takes * bytes_[i];
      // Every buffer that was taken had been cached before.
      totals->puts += takes;
      totals->given_bytes += takes * bytes_[i];
      if (!is_cached_state(states_[i].load(std::memory_order_acquire))) continue;
      ++totals->puts;
      totals->given_bytes += bytes_[i];
      ++totals->cached_buffers;
      totals->cached_bytes += bytes_[i];
      const Block& block = buffers_[i]->block();
      if (!block.is_slab()) totals->cached_block_bytes += block.bytes();
      visit_cached(*buffers_[i]);
    }
  }

  // Called by the owner thread, when it has ended or has moved to another engine.
  bool empty() const;
  void abandon() { abandoned_.store(true, std::memory_order_release); }
  // Whether note_changes() would do anything.
  bool has_changes() const { return changed_.load(std::memory_order_relaxed); }
  bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }

  void validate() const;

 private:
  // Bits: the slot has a buffer; the buffer is cached; the latter has changed and is not noted yet. So each of the
  // owner's two state changes is a single instruction.
  enum State : std::uint8_t {
    kEmpty = 0,
    kOut = 2,            // handed out, and noted
    kCached = 3,         // noted
    kOutAgain = 6,       // cached and handed out again since the last note_changes()
    kCachedUnnoted = 7,  // cached since the last note_changes()
  };
  static constexpr unsigned kCachedBit = 1;
  static constexpr unsigned kSets = kSlots / kWays;
  static constexpr unsigned kPlaces = 256;
  static constexpr unsigned kAskedFor = 64;
  struct Asked {
    Bytes bytes = 0;
    std::uint32_t skips = 0;    // the next requests that do not count
    std::uint32_t in_vain = 0;  // how many did not count when a buffer was last cached in vain
  };

  static bool is_cached_state(State state) { return (state & kCachedBit) != 0; }

  // The states of a set, a byte for each: one look tells whether any of its buffers is cached.
  using SetStates [[gnu::may_alias]] = std::uint32_t;
  static_assert(sizeof(SetStates) == kWays * sizeof(std::atomic<State>));
  static constexpr SetStates kCachedBits = 0x01010101, kUnnotedBits = 0x04040404;
  SetStates states_of_set(unsigned first) const {
    return __atomic_load_n(reinterpret_cast<const SetStates*>(&states_[first]), __ATOMIC_ACQUIRE);
  }
  // Calls visit(slot, state) for the slots of the sets that have any of these bits.
  template <class Visit>
  void for_each_slot(SetStates bits, Visit visit) {
    for (unsigned first = 0; first < kSlots; first += kWays) {
      if ((states_of_set(first) & bits) == 0) continue;
      for (unsigned i = first; i < first + kWays; ++i) visit(i, states_[i].load(std::memory_order_acquire));
    }
  }
  static unsigned set_of(Bytes bytes) { return static_cast<unsigned>(hash_bits(bytes, 6)) / kWays * kWays; }
  // By the distance from the first buffer. So which buffers share a place, and therefore which are cached, does not
  // depend on the reservation's address: a program's steps are the same in every run.
  unsigned place_of(DeviceAddress address) const {
    return static_cast<unsigned>(hash_bits(address.value - first_address_, 8));
  }
  static unsigned place_of_size(Bytes bytes) { return static_cast<unsigned>(hash_bits(bytes, 6)); }
  static_assert(kSets == 16 && kPlaces == 256 && kAskedFor == 64, "The hashes give so many bits.");

  [[gnu::always_inline]] bool take_from(unsigned i, std::uint64_t stream, DeviceAddress* out) {
    if (streams_[i] != stream) return false;
    State state = states_[i].load(std::memory_order_relaxed);
    while (is_cached_state(state)) {
      // Fails if, at the same moment, the buffer's new state was noted or the buffer was taken back.
      if (!states_[i].compare_exchange_weak(state, static_cast<State>(state - kCachedBit))) continue;
      changed_.store(true, std::memory_order_release);
      count(takes_[i]);
      out->value = addresses_[i];
      return true;
    }
    return false;
  }
  // Only one thread writes the counter.
  static void count(std::atomic<std::uint64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  static bool withdraw_from(Buffer& buffer);
  State leave(unsigned slot, bool out_too);
  void learn_worth(unsigned slot);
  // For the buffer that the slot has, or had last.
  std::uint64_t takes_of(unsigned slot) const {
    return takes_[slot].load(std::memory_order_relaxed) - takes_before_[slot];
  }
  void count_cached(unsigned slot);
  std::optional<unsigned> make_way(unsigned set, Buffer** displaced);

  // Not std::array: its checks cost a fifth of a hit. One cache line with everything that both sides write.
  alignas(64) std::atomic<State> states_[kSlots] = {};
  // Written by the owner thread.
  alignas(64) std::atomic<bool> changed_{false};
  std::atomic<bool> abandoned_{false};
  std::uint8_t next_way_ = 0;
  std::atomic<std::uint64_t> takes_[kSlots] = {};  // by slot, never reset
  std::uint64_t first_address_ = 0;                // of the first buffer that was remembered; then constant
  std::uint8_t slot_at_[kPlaces] = {};             // by place_of(address): the slot that may have the address
  // By slot.
  Bytes bytes_[kSlots] = {};
  std::uint64_t streams_[kSlots] = {};
  std::uint64_t addresses_[kSlots] = {};
  Buffer* buffers_[kSlots] = {};
  // Guarded by the lock.
  Asked asked_for_[kAskedFor] = {};  // the newest sizes, by their hash
  Bytes cached_bytes_ = 0;
  Bytes cached_block_bytes_ = 0;
  bool cached_large_ = false;
  std::array<std::uint64_t, kSlots> takes_before_{};  // takes_ at the time when the slot got its buffer
  CacheTotals past_;                                  // of former buffers, and puts that ended in the heap
};

// The caches of all threads for one heap. At most kMost threads have one; the others always take the lock.
class ThreadCaches {
 public:
  static constexpr std::size_t kMost = 64;

  ThreadCaches();
  ~ThreadCaches();
  ThreadCaches(const ThreadCaches&) = delete;
  ThreadCaches& operator=(const ThreadCaches&) = delete;

  // Called without the lock. The calling thread's cache, or null.
  ThreadCache* mine() const {
    ThreadCache* cache = nullptr;
    if (find_by_thread(key_, &cache)) return cache;
    return mine_beside_entries();
  }
  // The same for a thread that has no entry.
  ThreadCache* mine_beside_entries() const {
    return some_without_entry_.load(std::memory_order_relaxed) ? mine_without_entry() : nullptr;
  }
  // The cache of a thread that has an entry in the table of threads, as nearly all have; false: it has none. `key`: the
  // key of these caches.
  static bool find_by_thread(std::uint64_t key, ThreadCache** out) {
    const std::uint64_t thread = this_thread();
    const ThreadEntry& entry = thread_entries[entry_index_of(thread)];
    if (entry.key.load(std::memory_order_relaxed) != (thread ^ key)) return false;
    *out = entry.cache;
    return true;
  }
  std::uint64_t key() const { return key_; }
  // False: more ThreadCaches have been made in this process than have keys, and no thread has an entry for these.
  bool has_entries() const { return key_ != kNoKey; }
  static bool take(ThreadCache* mine, Bytes bytes, std::optional<StreamHandle> stream, DeviceAddress* out) {
    return mine != nullptr && mine->take(bytes, key_of(stream), out);
  }
  static bool put(ThreadCache* mine, DeviceAddress address, std::optional<StreamHandle> stream) {
    return mine != nullptr && mine->put(address, key_of(stream));
  }
  bool put(DeviceAddress address, std::optional<StreamHandle> stream) const { return put(mine(), address, stream); }

  // Everything below must be called under the lock.

  // The calling thread has no cache, and can get one once everything is reclaimed.
  bool may_join() const;
  // The calling thread is about to free the buffer. See ThreadCache::withdraw.
  bool withdraw(Buffer& buffer) const {
    ThreadCache* const cache = ThreadCache::of(buffer);
    if (cache == nullptr) [[likely]]
      return true;
    if (cache != mine()) cache->freed_by_another(buffer.requested());
    return ThreadCache::withdraw(buffer);
  }
  // See ThreadCache. The calling thread gets a cache if it has none.
  Buffer* remember(Buffer& buffer, std::optional<StreamHandle> stream);
  bool has_asked_for(Bytes bytes);
  // If there is one cache: that; else null.
  const ThreadCache* only_one() const { return caches_.size() == 1 ? caches_.front().get() : nullptr; }
  bool has_changes() const {
    for (const auto& cache : caches_) {
      if (cache->has_changes()) return true;
    }
    return false;
  }
  template <class Visit>
  void note_changes(Visit visit) {
    has_large_ = false;
    for (const auto& cache : caches_) {
      cache->note_changes(visit);
      has_large_ |= cache->has_large();
    }
    add_up();
  }
  // Afterwards nothing is cached, except what other threads cache meanwhile. True if anything was.
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
    add_up();
    return any;
  }

  // As of the last note_changes().
  bool has_large() const { return has_large_; }
  Bytes cached_bytes() const { return cached_bytes_; }
  Bytes cached_block_bytes() const { return cached_block_bytes_; }

  // The current values; calls visit(buffer) for each cached buffer. Changes nothing.
  template <class Visit>
  CacheTotals totals(Visit visit_cached) const {
    CacheTotals all = retired_;
    for (const auto& cache : caches_) cache->add_totals(&all, visit_cached);
    return all;
  }
  CacheTotals totals() const {
    return totals([](const Buffer&) {});
  }

  void validate() const;

  static std::uint64_t key_of(std::optional<StreamHandle> stream) {
    return stream.has_value() ? static_cast<std::uint64_t>(*stream) : ThreadCache::kNoStream;
  }
  static std::optional<StreamHandle> stream_of(std::uint64_t key) {
    return key != ThreadCache::kNoStream ? std::optional(StreamHandle{key}) : std::nullopt;
  }

 private:
  ThreadCache* mine_without_entry() const;
  ThreadCache* join();
  void retire_abandoned();
  void add_up() {
    cached_bytes_ = cached_block_bytes_ = 0;
    for (const auto& cache : caches_) {
      cached_bytes_ += cache->cached_bytes();
      cached_block_bytes_ += cache->cached_block_bytes();
    }
  }

  // The thread's own address: the first word of the segment that the segment register points to, according to the ABI
  // (ELF Handling For Thread-Local Storage, 3.4.6). No two threads have the same address at a time.
  static std::uint64_t this_thread() {
#ifdef __x86_64__
    std::uint64_t thread;
    asm("mov %%fs:0, %0" : "=r"(thread));
    return thread;
#else
    return static_cast<std::uint64_t>(pthread_self());
#endif
  }
  // Finds the value of `here` at a third of the cost of thread-local storage in a library that can be loaded at any
  // time. A thread that finds another thread's address in its place works without an entry.
  //
  // Invariants: `owner` is a thread that has not ended (in a forked child: or one of its parent), or 0. `cache` and
  // `key` are written by the owner alone, so a thread that finds a key of its own reads what it wrote itself. A key is
  // the thread's address (at most 48 bits) and, above it, the number of the caches.
  struct alignas(64) ThreadEntry {
    std::atomic<std::uint64_t> key{0};
    ThreadCache* cache = nullptr;
    std::atomic<std::uint64_t> owner{0};
  };
  static constexpr std::size_t kThreadEntries = 256;
  static constexpr unsigned kKeyShift = 48;
  static std::size_t entry_index_of(std::uint64_t thread) { return hash_bits(thread, 8); }
  static_assert(kThreadEntries == 256, "The hash gives so many bits.");
  bool claim_entry(ThreadCache* cache) const;
  static void release_entry();
  static ThreadEntry thread_entries[kThreadEntries];

  // The cache of the calling thread. Numbers of ThreadCaches are never reused, so if the number matches, the pointer is
  // valid.
  struct Here {
    std::uint64_t caches = 0;
    ThreadCache* cache = nullptr;
    bool ended = false;  // the thread's destructors are running
  };
  struct Membership;
  static constinit thread_local Here here;

  const std::uint64_t number_;
  static constexpr std::uint64_t kNoKey = 1;  // a thread's address is even
  const std::uint64_t key_ = number_ >> (64 - kKeyShift) == 0 ? number_ << kKeyShift : kNoKey;
  std::vector<std::shared_ptr<ThreadCache>> caches_;
  std::atomic<bool> some_without_entry_{false};  // a thread with a cache has, or had, no entry
  bool has_large_ = false;
  Bytes cached_bytes_ = 0, cached_block_bytes_ = 0;  // sums over `caches_`
  CacheTotals retired_;                              // of caches that no longer exist
};

}  // namespace thermocline
