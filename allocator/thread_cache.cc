// SPDX-License-Identifier: Apache-2.0
#include "allocator/thread_cache.h"

#include <algorithm>

#include "driver/check.h"

namespace thermocline {
namespace {

// Only one thread writes the counter.
void count(std::atomic<std::uint64_t>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

bool ThreadCache::take(Bytes bytes, std::uint64_t stream, DeviceAddress* out) {
  const unsigned set = set_of(bytes);
  for (unsigned i = set; i < set + kWays; ++i) {
    const Slot& slot = slots_[i];
    if (slot.bytes != bytes || slot.stream != stream) continue;
    State state = states_[i].load(std::memory_order_relaxed);
    while (is_cached_state(state)) {
      // Fails if, at the same moment, the buffer's new state was noted or the buffer was taken back.
      const State out_state = state == State::kCached ? State::kOut : State::kOutAgain;
      if (!states_[i].compare_exchange_weak(state, out_state)) continue;
      changed_.store(true, std::memory_order_release);
      count(takes_[i]);
      *out = slot.address;
      return true;
    }
  }
  return false;
}

bool ThreadCache::put(DeviceAddress address, std::uint64_t stream) {
  const unsigned i = slot_at_[place_of(address)];
  const Slot& slot = slots_[i];
  if (slot.address != address || slot.stream != stream) return false;
  State state = states_[i].load(std::memory_order_relaxed);
  while (state == State::kOut || state == State::kOutAgain) {
    if (!states_[i].compare_exchange_weak(state, State::kCachedUnnoted)) continue;
    changed_.store(true, std::memory_order_release);
    return true;
  }
  return false;
}

// Empties the slot if its buffer is cached, or (`out_too`) handed out and noted. Returns the former state,
// or kEmpty if nothing was done.
ThreadCache::State ThreadCache::leave(unsigned slot, bool out_too) {
  State state = states_[slot].load(std::memory_order_acquire);
  while (is_cached_state(state) || (out_too && state == State::kOut)) {
    if (!states_[slot].compare_exchange_weak(state, State::kEmpty)) continue;
    slots_[slot].buffer->cache_ = nullptr;
    if (is_cached_state(state)) {
      ++past_.puts;
      past_.given_bytes += slots_[slot].bytes;
    }
    return state;
  }
  return State::kEmpty;
}

// Frees a slot of the set: an empty one, or one whose buffer is handed out, or one whose buffer is cached. Slots whose
// latest change has not been noted are left alone.
std::optional<unsigned> ThreadCache::make_way(unsigned set, Buffer** displaced) {
  for (const State wanted : {State::kEmpty, State::kOut}) {
    for (unsigned i = set; i < set + kWays; ++i) {
      if (states_[i].load(std::memory_order_relaxed) != wanted) continue;
      leave(i, true);
      return i;
    }
  }
  const unsigned i = set + next_way_++ % kWays;
  Buffer* const buffer = slots_[i].buffer;
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
    past_.taken_bytes += takes * slots_[i].bytes;
    past_.given_bytes += takes * slots_[i].bytes;
    takes_before_[i] += takes;
  }
  if (first_address_ == 0) first_address_ = buffer.address().value;
  slots_[i] = Slot{buffer.requested(), stream, buffer.address(), &buffer};
  slot_at_[place_of(buffer.address())] = static_cast<std::uint8_t>(i);
  buffer.cache_ = this;
  buffer.slot_ = static_cast<std::uint8_t>(i);
  states_[i].store(State::kOut, std::memory_order_release);
  return displaced;
}

bool ThreadCache::withdraw(Buffer& buffer) {
  ThreadCache* const cache = buffer.cache_;
  if (cache == nullptr) return true;
  State state = cache->states_[buffer.slot_].load(std::memory_order_acquire);
  while (!is_cached_state(state)) {
    if (!cache->states_[buffer.slot_].compare_exchange_weak(state, State::kEmpty)) continue;
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
  return std::ranges::all_of(states_, [](const auto& state) { return state.load() == State::kEmpty; });
}

void ThreadCache::count_cached(const Slot& slot) {
  cached_bytes_ += slot.bytes;
  cached_large_ |= slot.bytes >= kLarge;
  const Block& block = slot.buffer->block();
  if (!block.is_slab()) cached_block_bytes_ += block.bytes();
}

void ThreadCache::validate() const {
  for (unsigned i = 0; i < kSlots; ++i) {
    if (states_[i].load(std::memory_order_acquire) == State::kEmpty) continue;
    const Slot& slot = slots_[i];
    THERMOCLINE_CHECK(slot.buffer->cache_ == this && slot.buffer->slot_ == i, "A cached buffer knows its slot.");
    THERMOCLINE_CHECK(slot.buffer->address() == slot.address && slot.buffer->requested() == slot.bytes,
                      "A slot says of its buffer what is so.");
    THERMOCLINE_CHECK(i - i % kWays == set_of(slot.bytes), "A slot is found by its size.");
  }
}

constinit thread_local ThreadCaches::Here ThreadCaches::here;

// Keeps the thread's cache alive, and reports the end of the thread.
struct ThreadCaches::Membership {
  std::shared_ptr<ThreadCache> cache;

  ~Membership() {
    here = Here{.ended = true};
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

bool ThreadCaches::has_large() const {
  return std::ranges::any_of(caches_, [](const auto& cache) { return cache->has_large(); });
}

Bytes ThreadCaches::cached_bytes() const {
  Bytes bytes = 0;
  for (const auto& cache : caches_) bytes += cache->cached_bytes();
  return bytes;
}

Bytes ThreadCaches::cached_block_bytes() const {
  Bytes bytes = 0;
  for (const auto& cache : caches_) bytes += cache->cached_block_bytes();
  return bytes;
}

void ThreadCaches::validate() const {
  for (const auto& cache : caches_) cache->validate();
}

}  // namespace thermocline
