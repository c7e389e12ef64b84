// SPDX-License-Identifier: Apache-2.0
// Tracks the progress of every stream. Each operation has an ordinal in its stream. A fence is an event recorded after
// everything submitted to a stream so far. Fences provide both kinds of order: one stream waits for another on the
// device (wait), and the host learns what has completed (passed, synchronize). Only synchronize blocks the host, apart
// from the exception noted at wait.
//
// Handles: 0 (legacy), CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are streams of their own. The last one is a different
// stream in every thread, and only that thread can record an event in it, so advance() fences each of its operations at
// once. The per-thread streams of threads that have ended are retired when another thread's stream is registered.
//
// Capture: while a stream captures a graph, nothing may be recorded in it or waited for on its behalf. fence, wait and
// synchronize then return not_supported and change nothing, and passed answers from what is known already; recording()
// makes this rare. Before every driver call on a stream of the program the clock asks whether the stream is capturing.
//
// Blocked streams: an operation may wait for a value that the program writes later, or never (may_block); it, and
// everything ordered after it, is then blocked. Whether such an operation has completed can be queried, but the clock
// does not wait for one that has not: synchronize returns not_ready. So that earlier work of the stream can still be
// waited for, all work is fenced before such an operation is submitted, and every operation is fenced at once while any
// stream may be blocked.
//
// Deferred waits: while a Deferring lives, synchronize() does not block; it returns not_ready and remembers the event.
// The caller then abandons what it was doing, releases its lock, waits for the event, and starts again. Meanwhile the
// event is on loan (reference_deferred), and nothing is recorded in it.
//
// Not thread-safe: the owner locks. advance() must be called after the submission that it counts, or under the same
// lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocator/use_set.h"
#include "driver/driver.h"
#include "driver/status.h"

namespace thermocline {

class StreamClock {
 public:
  explicit StreamClock(const Driver& driver) : driver_(&driver) {}
  // Destroys the events; a context must be current.
  ~StreamClock();
  StreamClock(const StreamClock&) = delete;
  StreamClock& operator=(const StreamClock&) = delete;

  // Registers handles that are not known yet.
  StreamIndex index_of(StreamHandle handle) { return handle == latest_handle_ ? latest_ : look_up(handle); }
  // The index of a known handle, without a driver call: false if the handle is not known, or is the per-thread one.
  bool find(StreamHandle handle, StreamIndex* out) const {
    *out = latest_;
    return handle == latest_handle_ || find_known(handle, out);
  }
  StreamHandle handle_of(StreamIndex stream) const;
  // False once the stream was retired.
  bool is_alive(StreamIndex stream) const;
  // The handles of all streams that are alive.
  std::vector<StreamHandle> handles() const;
  std::size_t streams() const { return streams_.size(); }

  // The ordinal of the newest operation submitted to the stream.
  // Not checked: asked at every free.
  Ordinal submitted(StreamIndex stream) const { return streams_.data()[static_cast<std::size_t>(stream)].submitted; }
  // The sum over all streams, including those that are gone.
  Ordinal submitted_in_all() const;
  // Counts one more submitted operation; returns its ordinal.
  Ordinal advance(StreamIndex stream) {
    Stream& one = streams_.data()[static_cast<std::size_t>(stream)];
    const Ordinal ordinal = ++one.submitted;
    if (one.thread != 0 || recording_ || blocked_ > 0) [[unlikely]]
      fence_at_once(stream);
    return ordinal;
  }

  // about_to_block: call it before an operation that may block is submitted. may_block: call it after that; the newest
  // operation of the stream may block, or is ordered after one that may.
  void about_to_block() { fence_all(); }
  void may_block(StreamIndex stream);
  // The program has made the stream wait for work that may be blocked; that wait is an operation of its
  // own.
  void comes_behind(StreamIndex stream);
  // Queries events. While no stream may be blocked, this and the functions below return false and query nothing.
  bool any_blocked();
  // Whether work submitted to the stream now would be ordered after blocked work.
  bool is_behind_blocked(StreamIndex stream);
  bool may_be_blocked() const { return blocked_ != 0; }
  bool is_blocked(Use use) { return blocked_ != 0 && search_blocked(use); }
  bool is_blocked(const UseSet& uses) { return blocked_ != 0 && search_blocked(uses); }
  // Adds to `out` those of `uses` that can be waited for without waiting for a blocked stream.
  void join_without_blocking(const UseSet& uses, UseSet* out);

  // true: a stream of the program is about to begin a capture; false: no capture is in progress any more. Everything
  // submitted so far is fenced now, and everything submitted during the capture at once, because the capturing stream
  // could not be fenced later.
  void recording(bool any);
  bool is_recording() const { return recording_; }

  // After success the newest fence covers everything submitted so far.
  Status fence(StreamIndex stream);

  // Device-side wait: work submitted to `waiter` from now on runs after the use. No driver call if it is the same
  // stream, if the use has completed, or if `waiter` has waited for it before. Blocks the host only if the use's stream
  // was retired without a fence.
  Status wait(StreamIndex waiter, Use use);
  Status wait_all(StreamIndex waiter, const UseSet& uses) {
    return uses.is_of_none_but(waiter) ? Status() : wait_for_others(waiter, uses);
  }

  // Host-side query: at most queries events, never blocks; records a fence when there is none to query.
  bool passed(Use use);
  bool passed(const UseSet& uses);

  // Blocks the host until the use has completed. not_ready: the use is blocked, or the wait is deferred.
  Status synchronize(Use use);
  Status synchronize(const UseSet& uses);

  class Deferring {
   public:
    // If `does` is false, no wait is deferred.
    Deferring(StreamClock& clock, bool does) : clock_(clock), before_(std::exchange(clock.defers_, does)) {
      if (does) clock.deferred_.reset();
    }
    ~Deferring() { clock_.defers_ = before_; }
    Deferring(const Deferring&) = delete;
    Deferring& operator=(const Deferring&) = delete;

   private:
    StreamClock& clock_;
    const bool before_;
  };
  bool defers() const { return defers_; }
  // Whether a wait has been deferred since the newest Deferring began.
  bool has_deferred() const { return deferred_.has_value(); }
  // The event of the deferred wait. It is not recorded again until it is returned.
  EventHandle reference_deferred();
  void release_reference(EventHandle event);

  // The program itself has synchronized: everything submitted so far (to the stream, or to all) has completed.
  void synchronized(StreamIndex stream);
  void synchronized_all();
  // If other threads submit while the program synchronizes: newest() before the wait returns the newest operation of
  // every stream, and synchronized() after the wait is told that these have completed.
  UseSet newest() const;
  void synchronized(const UseSet& uses);

  // The program is about to destroy the stream: a fence is recorded while that is still possible. Ordinals stay valid;
  // if the handle appears again, it is a new stream.
  void retire(StreamHandle handle);

  // How often the host blocked in synchronize.
  std::uint64_t host_waits() const { return host_waits_; }

  // Recomputes what is cached, and checks the invariants below.
  void validate() const;

 private:
  struct Fence {
    Ordinal ordinal;
    EventHandle event;
  };

  // Invariants: passed <= submitted; fences ascend strictly, and are all above passed and not above submitted;
  // seen[other] <= the ordinal submitted to other. A free stream has no handle, and passed == submitted.
  struct Stream {
    StreamHandle handle{};
    std::uint64_t thread = 0;   // owner, for the per-thread handle; else 0
    std::weak_ptr<char> owner;  // expired when that thread has ended
    bool alive = false;         // has a handle
    bool lost = false;          // retired without a fence: only synchronizing the context shows its progress
    Ordinal submitted = 0;
    Ordinal passed = 0;
    std::deque<Fence> fences;
    std::vector<Ordinal> seen;       // by stream: the newest ordinal that this stream's later work is ordered after
    std::deque<Ordinal> blocked_at;  // ascending, above passed: operations that may be blocked
    std::optional<bool> blocking;    // synchronizes with the legacy stream; queried when needed
  };
  struct Key {
    StreamHandle handle;
    std::uint64_t thread;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };

  static constexpr StreamHandle kNoHandle{~std::uintptr_t{0}};

  StreamIndex look_up(StreamHandle handle);
  bool find_known(StreamHandle handle, StreamIndex* out) const;
  StreamIndex find_or_register(StreamHandle handle);
  void retire_those_of_ended_threads();
  void retire(Stream& stream, StreamIndex index);
  Stream& at(StreamIndex stream);
  const Stream& at(StreamIndex stream) const;
  static Key key_of(StreamHandle handle);
  bool can_record(const Stream& stream) const;
  Status wait_for_others(StreamIndex waiter, const UseSet& uses);
  void fence_at_once(StreamIndex index);
  void fence_all();
  bool search_blocked(Use use);
  bool search_blocked(const UseSet& uses);
  void blocked_from(Stream& stream, Ordinal ordinal);
  void follow_legacy(Stream& stream);
  template <class Counts>
  bool has_blocked_neighbour(Stream& stream, Counts counts);
  static bool has_blocked_operation(const Stream& stream) {
    return !stream.blocked_at.empty() && stream.blocked_at.front() <= stream.submitted;
  }
  bool is_blocking(Stream& stream);
  Status take_event(EventHandle* out);
  void spare(EventHandle event);
  void mark_passed(Stream& stream, Ordinal ordinal);
  void poll(Stream& stream);
  void thin_fences(Stream& stream);
  // Whether some fence covers the ordinal.
  static bool is_covered(const Stream& stream, Ordinal ordinal) {
    return !stream.fences.empty() && stream.fences.back().ordinal >= ordinal;
  }
  // The oldest fence that covers the ordinal; null when there is none.
  const Fence* covering(const Stream& stream, Ordinal ordinal) const;

  const Driver* driver_;
  std::vector<Stream> streams_;
  std::unordered_map<Key, StreamIndex, KeyHash> index_;
  // The handle looked up last, which is often the next one too; never the per-thread handle.
  StreamHandle latest_handle_ = kNoHandle;
  StreamIndex latest_{};
  std::vector<EventHandle> spare_events_;
  // An event that deferred waits refer to: how many, and whether it is no longer the event of any fence.
  struct Referenced {
    int times = 0;
    bool is_spare = false;
  };
  std::unordered_map<EventHandle, Referenced> referenced_;
  std::optional<EventHandle> deferred_;
  bool defers_ = false;
  std::uint64_t host_waits_ = 0;
  bool recording_ = false;
  std::size_t blocked_ = 0;  // number of streams with operations that may be blocked
};

}  // namespace thermocline
