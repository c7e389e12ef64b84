// SPDX-License-Identifier: Apache-2.0
#include "allocator/stream_clock.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "driver/check.h"
#include "driver/hash.h"
#include "driver/locks.h"

namespace thermocline {
namespace {

// CU_STREAM_PER_THREAD: the same handle is a different stream in every thread.
constexpr StreamHandle kPerThread{2};

// When a stream has more fences than this, they are thinned out: of two neighbors, the newer one also covers what the
// older one did.
constexpr std::size_t kMostFences = 4096;

// Asking for a stream's progress is a driver call, so it is made once in this many operations.
constexpr Ordinal kOrdinalsPerQuestion = 64;

// The system reuses thread ids; these are not reused.
std::uint64_t this_thread() {
  static std::atomic<std::uint64_t> next{1};
  thread_local const std::uint64_t id = next.fetch_add(1, std::memory_order_relaxed);
  return id;
}

// Lets others see that a thread has ended. A destructor of the thread that asks later still gets an expired pointer.
std::weak_ptr<char> life_of_this_thread() {
  struct Life {
    std::shared_ptr<char> token = std::make_shared<char>();
    ~Life() { token.reset(); }
  };
  thread_local const Life life;
  return life.token;
}

std::uint32_t number(StreamIndex stream) { return static_cast<std::uint32_t>(stream); }

}  // namespace

std::size_t StreamClock::KeyHash::operator()(const Key& key) const {
  return std::hash<std::uint64_t>()(static_cast<std::uint64_t>(key.handle) * kHashFactor ^ key.thread);
}

StreamClock::Key StreamClock::key_of(StreamHandle handle) { return {handle, handle == kPerThread ? this_thread() : 0}; }

StreamClock::~StreamClock() {
  for (const EventHandle event : spare_events_) static_cast<void>(driver_->destroy_event(event));
  for (const Stream& stream : streams_) {
    for (const Fence& fence : stream.fences) static_cast<void>(driver_->destroy_event(fence.event));
  }
}

inline StreamClock::Stream& StreamClock::at(StreamIndex stream) {
  THERMOCLINE_CHECK(number(stream) < streams_.size(), "A stream index was given by index_of.");
  return streams_[number(stream)];
}

inline const StreamClock::Stream& StreamClock::at(StreamIndex stream) const {
  THERMOCLINE_CHECK(number(stream) < streams_.size(), "A stream index was given by index_of.");
  return streams_[number(stream)];
}

StreamIndex StreamClock::look_up(StreamHandle handle) {
  const StreamIndex index = find_or_register(handle);
  // Which stream the per-thread handle is depends on the thread.
  if (handle != kPerThread) {
    latest_handle_ = handle;
    latest_ = index;
  }
  return index;
}

bool StreamClock::find_known(StreamHandle handle, StreamIndex* out) const {
  if (handle == kPerThread) return false;
  const auto known = index_.find(key_of(handle));
  if (known == index_.end()) return false;
  *out = known->second;
  return true;
}

StreamIndex StreamClock::find_or_register(StreamHandle handle) {
  const Key key = key_of(handle);
  if (const auto known = index_.find(key); known != index_.end()) return known->second;
  if (key.thread != 0) retire_those_of_ended_threads();
  std::size_t slot = 0;
  while (slot < streams_.size() && (streams_[slot].alive || streams_[slot].passed != streams_[slot].submitted)) ++slot;
  if (slot == streams_.size()) streams_.emplace_back();
  Stream& stream = streams_[slot];
  stream.handle = handle;
  stream.thread = key.thread;
  stream.owner = key.thread != 0 ? life_of_this_thread() : std::weak_ptr<char>();
  stream.alive = true;
  stream.lost = false;
  stream.blocking.reset();
  if (!stream.blocked_at.empty()) {
    stream.blocked_at.clear();
    --blocked_;
  }
  // The work that the former stream with this index waited for does not count for the new one.
  stream.seen.clear();
  const StreamIndex index{static_cast<std::uint32_t>(slot)};
  index_.emplace(key, index);
  return index;
}

StreamHandle StreamClock::handle_of(StreamIndex stream) const { return at(stream).handle; }

bool StreamClock::is_alive(StreamIndex stream) const { return at(stream).alive; }

std::vector<StreamHandle> StreamClock::handles() const {
  std::vector<StreamHandle> all;
  for (const Stream& stream : streams_) {
    if (stream.alive) all.push_back(stream.handle);
  }
  return all;
}

Ordinal StreamClock::submitted_in_all() const {
  Ordinal sum = 0;
  for (const Stream& stream : streams_) sum += stream.submitted;
  return sum;
}

// Another thread could not record an event in this stream later. If recording fails here, passed and wait try again
// from this thread.
void StreamClock::fence_at_once(StreamIndex index) {
  if (blocked_ > 0) {
    Stream& stream = at(index);
    follow_legacy(stream);
    // Otherwise a program that never asks would have every operation fenced, for as long as the clock believes a stream
    // to be blocked.
    if (stream.submitted % kOrdinalsPerQuestion == 0 && !recording_) any_blocked();
  }
  static_cast<void>(fence(index));
}

void StreamClock::recording(bool any) {
  recording_ = any;
  if (any) fence_all();
}

void StreamClock::fence_all() {
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].alive) static_cast<void>(fence(StreamIndex{i}));
  }
}

void StreamClock::blocked_from(Stream& stream, Ordinal ordinal) {
  if (!stream.blocked_at.empty() && stream.blocked_at.back() >= ordinal) return;
  blocked_ += stream.blocked_at.empty() ? 1 : 0;
  stream.blocked_at.push_back(ordinal);
}

void StreamClock::may_block(StreamIndex index) {
  Stream& stream = at(index);
  blocked_from(stream, stream.submitted);
  static_cast<void>(fence(index));
}

void StreamClock::comes_behind(StreamIndex index) {
  if (!any_blocked()) return;
  advance(index);
  may_block(index);
}

bool StreamClock::is_blocking(Stream& stream) {
  if (!stream.blocking.has_value()) stream.blocking = driver_->is_blocking(stream.handle);
  return *stream.blocking;
}

// The legacy stream's work is ordered after that of all blocking streams, and their work after its.
template <class Counts>
bool StreamClock::has_blocked_neighbour(Stream& stream, Counts counts) {
  const auto is_legacy = [](const Stream& one) { return one.alive && one.handle == StreamHandle{}; };
  if (!is_blocking(stream)) return false;
  return std::any_of(streams_.begin(), streams_.end(), [&](Stream& other) {
    return counts(other) && &other != &stream && (is_legacy(stream) ? is_blocking(other) : is_legacy(other));
  });
}

void StreamClock::follow_legacy(Stream& stream) {
  const auto may_block = [](const Stream& other) { return !other.blocked_at.empty(); };
  if (has_blocked_neighbour(stream, may_block)) blocked_from(stream, stream.submitted);
}

// Counts only operations that were submitted: the next ordinal of a stream, if it is never submitted after all, would
// block others forever.
bool StreamClock::is_behind_blocked(StreamIndex index) {
  if (!any_blocked()) return false;
  Stream& stream = at(index);
  return has_blocked_operation(stream) || has_blocked_neighbour(stream, has_blocked_operation);
}

bool StreamClock::any_blocked() {
  for (std::size_t i = 0; i < streams_.size() && blocked_ > 0; ++i) {
    if (!streams_[i].blocked_at.empty()) poll(streams_[i]);
  }
  return blocked_ > 0;
}

bool StreamClock::search_blocked(Use use) {
  if (at(use.stream).blocked_at.empty() || passed(use)) return false;
  const Stream& stream = at(use.stream);
  if (stream.blocked_at.empty()) return false;
  const Fence* const fence = covering(stream, use.ordinal);
  return fence == nullptr || fence->ordinal >= stream.blocked_at.front();
}

bool StreamClock::search_blocked(const UseSet& uses) {
  return std::any_of(uses.begin(), uses.end(), [this](const Use& use) { return is_blocked(use); });
}

void StreamClock::join_without_blocking(const UseSet& uses, UseSet* out) {
  if (blocked_ == 0) return out->join(uses);
  for (const Use& use : uses) {
    if (!is_blocked(use)) out->add(use);
  }
}

bool StreamClock::can_record(const Stream& stream) const {
  if (!stream.alive || (stream.thread != 0 && stream.thread != this_thread())) return false;
  return !driver_->is_capturing(stream.handle);
}

Status StreamClock::take_event(EventHandle* out) {
  if (spare_events_.empty()) return driver_->create_event(false, out);
  *out = spare_events_.back();
  spare_events_.pop_back();
  return Status();
}

void StreamClock::spare(EventHandle event) {
  if (const auto referenced = referenced_.find(event); referenced != referenced_.end()) {
    referenced->second.is_spare = true;
  } else {
    spare_events_.push_back(event);
  }
}

EventHandle StreamClock::reference_deferred() {
  THERMOCLINE_CHECK(deferred_.has_value(), "Only what has to be waited for is referenced.");
  const EventHandle event = *std::exchange(deferred_, std::nullopt);
  ++referenced_[event].times;
  return event;
}

void StreamClock::release_reference(EventHandle event) {
  const auto referenced = referenced_.find(event);
  THERMOCLINE_CHECK(referenced != referenced_.end(), "What is released was referenced.");
  if (--referenced->second.times > 0) return;
  if (referenced->second.is_spare) spare_events_.push_back(event);
  referenced_.erase(referenced);
}

const StreamClock::Fence* StreamClock::covering(const Stream& stream, Ordinal ordinal) const {
  const auto found = std::lower_bound(stream.fences.begin(), stream.fences.end(), ordinal,
                                      [](const Fence& fence, Ordinal wanted) { return fence.ordinal < wanted; });
  return found != stream.fences.end() ? &*found : nullptr;
}

Status StreamClock::fence(StreamIndex index) {
  Stream& stream = at(index);
  if (stream.passed == stream.submitted || is_covered(stream, stream.submitted)) return Status();
  if (!can_record(stream)) return Status::not_supported();
  if (stream.fences.size() >= kMostFences) thin_fences(stream);
  EventHandle event{};
  if (const Status status = take_event(&event); !status.ok()) return status;
  if (const Status status = driver_->record(event, stream.handle); !status.ok()) {
    spare_events_.push_back(event);
    return status;
  }
  stream.fences.push_back({stream.submitted, event});
  return Status();
}

void StreamClock::thin_fences(Stream& stream) {
  poll(stream);
  if (stream.fences.size() < kMostFences) return;
  std::deque<Fence> kept;
  for (std::size_t i = 0; i < stream.fences.size(); ++i) {
    // Keeps the newest, and every second one before it.
    if ((stream.fences.size() - 1 - i) % 2 == 0) {
      kept.push_back(stream.fences[i]);
    } else {
      spare(stream.fences[i].event);
    }
  }
  stream.fences.swap(kept);
}

Status StreamClock::wait(StreamIndex waiter, Use use) {
  if (waiter == use.stream) return Status();
  Stream& from = at(use.stream);
  THERMOCLINE_CHECK(use.ordinal <= from.submitted, "A use was submitted before it is waited for.");
  if (use.ordinal <= from.passed) return Status();
  Stream& to = at(waiter);
  if (to.seen.size() <= number(use.stream)) to.seen.resize(streams_.size());
  if (to.seen[number(use.stream)] >= use.ordinal) return Status();
  if (!is_covered(from, use.ordinal)) {
    const Status status = fence(use.stream);
    // A stream that no longer exists has left no event that another one could wait for.
    if (!status.ok()) return from.lost && can_record(to) ? synchronize(use) : status;
  }
  const Fence* fence = covering(from, use.ordinal);
  THERMOCLINE_CHECK(fence != nullptr, "A new fence covers everything submitted.");
  const bool is_behind_blocked_work = !from.blocked_at.empty() && fence->ordinal >= from.blocked_at.front();
  if (!can_record(to)) return Status::not_supported();
  if (const Status status = driver_->wait(to.handle, fence->event); !status.ok()) return status;
  to.seen[number(use.stream)] = fence->ordinal;
  if (is_behind_blocked_work) blocked_from(to, to.submitted + 1);
  return Status();
}

Status StreamClock::wait_for_others(StreamIndex waiter, const UseSet& uses) {
  for (const Use& use : uses) {
    if (const Status status = wait(waiter, use); !status.ok()) return status;
  }
  return Status();
}

void StreamClock::mark_passed(Stream& stream, Ordinal ordinal) {
  while (!stream.fences.empty() && stream.fences.front().ordinal <= ordinal) {
    spare(stream.fences.front().event);
    stream.fences.pop_front();
  }
  stream.passed = std::max(stream.passed, ordinal);
  if (stream.blocked_at.empty()) return;
  while (!stream.blocked_at.empty() && stream.blocked_at.front() <= stream.passed) stream.blocked_at.pop_front();
  if (stream.blocked_at.empty()) --blocked_;
}

void StreamClock::poll(Stream& stream) {
  while (!stream.fences.empty() && driver_->query(stream.fences.front().event).ok()) {
    mark_passed(stream, stream.fences.front().ordinal);
  }
}

bool StreamClock::passed(Use use) {
  Stream& stream = at(use.stream);
  THERMOCLINE_CHECK(use.ordinal <= stream.submitted, "A use was submitted before it is asked for.");
  if (use.ordinal <= stream.passed) return true;
  // If recording fails (during a capture), the older fences can still be queried.
  if (!is_covered(stream, use.ordinal)) static_cast<void>(fence(use.stream));
  while (use.ordinal > stream.passed && !stream.fences.empty() && driver_->query(stream.fences.front().event).ok()) {
    mark_passed(stream, stream.fences.front().ordinal);
  }
  return use.ordinal <= stream.passed;
}

bool StreamClock::passed(const UseSet& uses) {
  bool all = true;
  // No early exit: this gives every stream the fence that a later query will find completed.
  for (const Use& use : uses) all = passed(use) && all;
  return all;
}

Status StreamClock::synchronize(Use use) {
  if (passed(use)) return Status();
  if (is_blocked(use)) return Status::not_ready();
  Stream& stream = at(use.stream);
  // It may have completed since the first query.
  if (use.ordinal <= stream.passed) return Status();
  if (!is_covered(stream, use.ordinal)) {
    const Status status = fence(use.stream);
    // Only the whole context can be waited for: the stream no longer exists, or is the per-thread stream of another
    // thread.
    if (!status.ok() && (stream.lost || (stream.thread != 0 && stream.thread != this_thread()))) {
      ++host_waits_;
      const WaitsInPlace no_event_tells;
      if (const Status all = driver_->synchronize_context(); !all.ok()) return all;
      mark_passed(stream, stream.submitted);
      return Status();
    }
    if (!status.ok()) return status;
  }
  const Fence fence = *covering(stream, use.ordinal);
  ++host_waits_;
  if (defers_) {
    deferred_ = fence.event;
    return Status::not_ready();
  }
  if (const Status status = driver_->synchronize(fence.event); !status.ok()) return status;
  mark_passed(stream, fence.ordinal);
  return Status();
}

Status StreamClock::synchronize(const UseSet& uses) {
  for (const Use& use : uses) {
    if (const Status status = synchronize(use); !status.ok()) return status;
  }
  return Status();
}

void StreamClock::synchronized(StreamIndex stream) { mark_passed(at(stream), at(stream).submitted); }

void StreamClock::synchronized_all() {
  for (Stream& stream : streams_) mark_passed(stream, stream.submitted);
}

UseSet StreamClock::newest() const {
  UseSet uses;
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].passed < streams_[i].submitted) uses.add(Use{StreamIndex{i}, streams_[i].submitted});
  }
  return uses;
}

void StreamClock::synchronized(const UseSet& uses) {
  for (const Use& use : uses) mark_passed(at(use.stream), use.ordinal);
}

void StreamClock::retire(StreamHandle handle) {
  const auto known = index_.find(key_of(handle));
  if (known == index_.end()) return;
  if (latest_handle_ == handle) latest_handle_ = kNoHandle;
  const StreamIndex index = known->second;
  index_.erase(known);
  retire(at(index), index);
}

void StreamClock::retire(Stream& stream, StreamIndex index) {
  stream.lost = !fence(index).ok();
  stream.alive = false;
  stream.handle = StreamHandle{};
  stream.thread = 0;
  stream.owner.reset();
}

// Their work was fenced when it was submitted. Their indices can be reused as soon as it has completed.
void StreamClock::retire_those_of_ended_threads() {
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    if (stream.alive && stream.thread != 0 && stream.owner.expired()) {
      index_.erase({stream.handle, stream.thread});
      retire(stream, StreamIndex{i});
    }
    if (!stream.alive) poll(stream);
  }
}

void StreamClock::validate() const {
  if (latest_handle_ != kNoHandle) {
    const auto known = index_.find(key_of(latest_handle_));
    THERMOCLINE_CHECK(known != index_.end() && known->second == latest_, "The latest stream is as it was looked up.");
  }
  std::size_t alive = 0, blocked = 0;
  for (const Stream& stream : streams_) {
    blocked += stream.blocked_at.empty() ? 0 : 1;
    THERMOCLINE_CHECK(stream.blocked_at.empty() || stream.blocked_at.front() > stream.passed,
                      "What has passed is not blocked.");
    THERMOCLINE_CHECK(stream.passed <= stream.submitted, "Only what was submitted has passed.");
    Ordinal last = stream.passed;
    for (const Fence& fence : stream.fences) {
      THERMOCLINE_CHECK(fence.ordinal > last, "Fences ascend, above what has passed.");
      last = fence.ordinal;
    }
    THERMOCLINE_CHECK(last <= stream.submitted, "A fence covers only what was submitted.");
    for (std::size_t other = 0; other < stream.seen.size(); ++other) {
      THERMOCLINE_CHECK(stream.seen[other] <= streams_[other].submitted, "Only what was submitted was waited for.");
    }
    alive += stream.alive ? 1 : 0;
  }
  THERMOCLINE_CHECK(alive == index_.size(), "Every living stream has one key.");
  THERMOCLINE_CHECK(blocked == blocked_, "Streams that may be blocked are counted.");
  for (const auto& [key, index] : index_) {
    THERMOCLINE_CHECK(at(index).alive && at(index).handle == key.handle, "A key leads to its stream.");
  }
}

}  // namespace thermocline
