// SPDX-License-Identifier: Apache-2.0
#include "allocator/thread_cache.h"

#include <algorithm>

#include "driver/check.h"

namespace thermocline {
namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

bool ThreadCache::take(Bytes bytes, std::uint64_t stream, DeviceAddress* out) {
  const unsigned set = set_of(bytes);
  if ((states_of_set(set) & kCachedBits) == 0) return false;
  for (unsigned i = set; i < set + kWays; ++i) {
    if (bytes_[i] == bytes && take_from(i, stream, out)) return true;
  }
  return false;
}

// Empties the slot if its buffer is cached, or (`out_too`) handed out and noted. Returns the former state,
// or kEmpty if nothing was done.
ThreadCache::State ThreadCache::leave(unsigned slot, bool out_too) {
  State state = states_[slot].load(std::memory_order_acquire);
  while (is_cached_state(state) || (out_too && state == kOut)) {
    if (!states_[slot].compare_exchange_weak(state, kEmpty)) continue;
    buffers_[slot]->cache_ = nullptr;
    if (is_cached_state(state)) {
      ++past_.puts;
      past_.given_bytes += bytes_[slot];
      learn_worth(slot);
    }
    return state;
  }
  return kEmpty;
}

// The slot loses its buffer to the heap, or to another one: has the thread taken it from the cache?
void ThreadCache::learn_worth(unsigned slot) {
  Asked& newest = asked_for_[place_of_size(bytes_[slot])];
  if (newest.bytes != bytes_[slot]) return;
  newest.in_vain = takes_of(slot) > 0 ? 0 : std::min(2 * newest.in_vain + 1, kSkipped);
  newest.skips = newest.in_vain;
}

// Frees a slot of the set: an empty one, or one whose buffer is handed out, or one whose buffer is cached. Slots whose
// latest change has not been noted are left alone.
std::optional<unsigned> ThreadCache::make_way(unsigned set, Buffer** displaced) {
  for (const State wanted : {kEmpty, kOut}) {
    for (unsigned i = set; i < set + kWays; ++i) {
      if (states_[i].load(std::memory_order_relaxed) != wanted) continue;
      if (wanted == kOut) learn_worth(i);
      leave(i, true);
      return i;
    }
  }
  const unsigned i = set + next_way_++ % kWays;
  Buffer* const buffer = buffers_[i];
  if (!is_cached_state(leave(i, false))) return std::nullopt;
  *displaced = buffer;
  return i;
}

Buffer* ThreadCache::remember(Buffer& buffer, std::uint64_t stream) {
  Buffer* displaced = nullptr;
  const std::optional<unsigned> way = make_way(set_of(buffer.requested()), &displaced);
  if (!way.has_value()) return nullptr;
  const unsigned i = *way;
  if (const std::uint64_t takes = takes_of(i); takes > 0) {
    past_.takes += takes;
    past_.puts += takes;
    past_.taken_bytes += takes * bytes_[i];
    past_.given_bytes += takes * bytes_[i];
    takes_before_[i] += takes;
  }
  if (first_address_ == 0) first_address_ = buffer.address().value;
  bytes_[i] = buffer.requested();
  streams_[i] = stream;
  addresses_[i] = buffer.address().value;
  buffers_[i] = &buffer;
  slot_at_[place_of(buffer.address())] = static_cast<std::uint8_t>(i);
  buffer.cache_ = this;
  buffer.slot_ = static_cast<std::uint8_t>(i);
  states_[i].store(kOut, std::memory_order_release);
  return displaced;
}

bool ThreadCache::withdraw_from(Buffer& buffer) {
  ThreadCache* const cache = buffer.cache_;
  State state = cache->states_[buffer.slot_].load(std::memory_order_acquire);
  while (!is_cached_state(state)) {
    if (!cache->states_[buffer.slot_].compare_exchange_weak(state, kEmpty)) continue;
    buffer.cache_ = nullptr;
    return true;
  }
  return false;
}

bool ThreadCache::is_cached(const Buffer& buffer) {
  return buffer.cache_ != nullptr &&
         is_cached_state(buffer.cache_->states_[buffer.slot_].load(std::memory_order_acquire));
}

bool ThreadCache::empty() const {
  return std::ranges::all_of(states_, [](const auto& state) { return state.load() == kEmpty; });
}

void ThreadCache::count_cached(unsigned slot) {
  cached_bytes_ += bytes_[slot];
  cached_large_ |= bytes_[slot] >= kLarge;
  const Block& block = buffers_[slot]->block();
  if (!block.is_slab()) cached_block_bytes_ += block.bytes();
}

void ThreadCache::validate() const {
  for (unsigned i = 0; i < kSlots; ++i) {
    if (states_[i].load(std::memory_order_acquire) == kEmpty) continue;
    const Buffer& buffer = *buffers_[i];
    THERMOCLINE_CHECK(buffer.cache_ == this && buffer.slot_ == i, "A cached buffer knows its slot.");
    THERMOCLINE_CHECK(buffer.address().value == addresses_[i] && buffer.requested() == bytes_[i],
                      "A slot says of its buffer what is so.");
    THERMOCLINE_CHECK(i - i % kWays == set_of(bytes_[i]), "A slot is found by its size.");
  }
}

constinit thread_local ThreadCaches::Here ThreadCaches::here;
constinit ThreadCaches::ThreadEntry ThreadCaches::thread_entries[kThreadEntries];

ThreadCache* ThreadCaches::mine_without_entry() const { return here.caches == number_ ? here.cache : nullptr; }

bool ThreadCaches::claim_entry(ThreadCache* cache) const {
  const std::uint64_t thread = this_thread();
  ThreadEntry& entry = thread_entries[entry_index_of(thread)];
  std::uint64_t nobody = 0;
  const bool is_mine = entry.owner.load(std::memory_order_relaxed) == thread;
  if (!is_mine && !entry.owner.compare_exchange_strong(nobody, thread, std::memory_order_acquire)) return false;
  entry.cache = cache;
  entry.key.store(has_entries() ? thread ^ key_ : 0, std::memory_order_relaxed);
  return has_entries();
}

void ThreadCaches::release_entry() {
  const std::uint64_t thread = this_thread();
  ThreadEntry& entry = thread_entries[entry_index_of(thread)];
  if (entry.owner.load(std::memory_order_relaxed) != thread) return;
  entry.key.store(0, std::memory_order_relaxed);
  entry.owner.store(0, std::memory_order_release);
}

// Keeps the thread's cache alive, and reports the end of the thread.
struct ThreadCaches::Membership {
  std::shared_ptr<ThreadCache> cache;

  ~Membership() {
    here = Here{.ended = true};
    release_entry();
    if (cache != nullptr) cache->abandon();
  }
  void change(std::shared_ptr<ThreadCache> to, std::uint64_t number) {
    if (cache != nullptr) cache->abandon();
    cache = std::move(to);
    here = Here{number, cache.get()};
  }
};

ThreadCaches::ThreadCaches() : number_(next_number()) {}
ThreadCaches::~ThreadCaches() = default;

ThreadCache* ThreadCaches::join() {
  if (caches_.size() >= kMost || here.ended) return nullptr;
  static thread_local Membership membership;
  caches_.push_back(std::make_shared<ThreadCache>());
  membership.change(caches_.back(), number_);
  if (!claim_entry(here.cache)) some_without_entry_.store(true, std::memory_order_relaxed);
  return here.cache;
}

bool ThreadCaches::may_join() const {
  return mine() == nullptr && !here.ended &&
         (caches_.size() < kMost || std::ranges::any_of(caches_, [](const auto& cache) { return cache->abandoned(); }));
}

Buffer* ThreadCaches::remember(Buffer& buffer, std::optional<StreamHandle> stream) {
  ThreadCache* cache = mine();
  if (cache == nullptr) cache = join();
  return cache != nullptr ? cache->remember(buffer, key_of(stream)) : nullptr;
}

bool ThreadCaches::has_asked_for(Bytes bytes) {
  ThreadCache* cache = mine();
  if (cache == nullptr) cache = join();
  return cache != nullptr && cache->has_asked_for(bytes);
}

void ThreadCaches::retire_abandoned() {
  std::erase_if(caches_, [this](const std::shared_ptr<ThreadCache>& cache) {
    if (!cache->abandoned() || !cache->empty()) return false;
    cache->add_totals(&retired_, [](const Buffer&) {});
    return true;
  });
}

void ThreadCaches::validate() const {
  for (const auto& cache : caches_) cache->validate();
  THERMOCLINE_CHECK(mine() == mine_without_entry(), "A thread's entry says what the thread knows.");
}

}  // namespace thermocline
