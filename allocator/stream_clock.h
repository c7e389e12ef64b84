// SPDX-License-Identifier: Apache-2.0
// Knows how far every stream has come. Each operation has an ordinal in its stream; a fence is an event recorded behind
// all that was submitted to a stream so far. From fences follow both kinds of order: one stream waits for another on
// the device (wait), and the host learns what has passed (passed, synchronize). Nothing here blocks but synchronize.
//
// Handles: 0 (legacy), CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are streams of their own; the last one is another
// stream in every thread, and since only its own thread can record an event in it, advance() fences it at once. Those
// of threads that have ended are retired when another's begins.
//
// Capture: while a stream records a graph nothing may be recorded in it or waited for on its behalf. fence, wait and
// synchronize then answer not_supported and change nothing, and passed answers from what is known; recording() is there
// so that this is rare. Before every driver call on a program's stream the clock asks whether it is capturing.
//
// Standing: a stream may stand behind a value that the program writes later, or never, from an operation on
// (may_block), and so may whatever comes behind it. Such an operation may have passed or not, which asking tells, but
// nobody waits for one that has not: synchronize answers not_ready. So that older work of the stream can still be
// waited for, all that was submitted is fenced before such an operation, and everything at once as long as any stream
// may stand.
//
// Deferred waits: while a Deferring lives, synchronize() does not block where something has to be waited for, but
// answers not_ready and remembers the event. Who asked gives up what it was at, opens the lock, waits for the event,
// and begins again: it is lent out meanwhile, and nothing is recorded in it.
//
// Not thread-safe: the owner locks. advance() must be called behind the submission that it counts, or under the same
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

  // Registers handles that it does not know.
  StreamIndex index_of(StreamHandle handle) { return handle == latest_handle_ ? latest_ : look_up(handle); }
  StreamHandle handle_of(StreamIndex stream) const;
  // False once it was retired.
  bool is_alive(StreamIndex stream) const;
  // Those that are alive.
  std::vector<StreamHandle> handles() const;
  std::size_t streams() const { return streams_.size(); }

  // The newest ordinal submitted to the stream.
  Ordinal submitted(StreamIndex stream) const;
  // One more operation was submitted; its ordinal.
  Ordinal advance(StreamIndex stream);

  // Before an operation that may stand is submitted; and behind it: the newest operation of the stream is one, or comes
  // behind one.
  void about_to_block() { fence_all(); }
  void may_block(StreamIndex stream);
  // What the stream waits for by an order of the program's own, which may stand: an operation of its own.
  void comes_behind(StreamIndex stream);
  // Queries events. Nothing below answers yes where no stream may stand, and asks nothing then.
  bool any_blocked();
  // What is submitted to the stream now would come behind what stands.
  bool is_held_up(StreamIndex stream);
  bool is_blocked(Use use) { return blocked_ != 0 && search_blocked(use); }
  bool is_blocked(const UseSet& uses) { return blocked_ != 0 && search_blocked(uses); }
  // Adds of these what may be waited for.
  void join_without_blocking(const UseSet& uses, UseSet* out);

  // Some stream of the program is about to record a graph (any), or none does any more. What was submitted is fenced
  // now, and what is submitted meanwhile at once, because it may be that very stream that could not be fenced later.
  void recording(bool any);
  bool is_recording() const { return recording_; }

  // Afterwards the newest fence covers everything submitted so far.
  Status fence(StreamIndex stream);

  // Device-side: work submitted to `waiter` from now on runs after the use. No driver call when it is the same stream,
  // when the use has passed, or when `waiter` has waited for it before. Blocks the host only where the use's stream was
  // retired without a fence.
  Status wait(StreamIndex waiter, Use use);
  Status wait_all(StreamIndex waiter, const UseSet& uses);

  // Host-side: queries events at most, never blocks; records a fence when there is none to query.
  bool passed(Use use);
  bool passed(const UseSet& uses);

  // The host blocks until it has passed. not_ready: it stands, or the wait is deferred.
  Status synchronize(Use use);
  Status synchronize(const UseSet& uses);

  class Deferring {
   public:
    // Nothing is deferred where `does` is false.
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
  // Since the newest Deferring began something would have had to be waited for.
  bool has_deferred() const { return deferred_.has_value(); }
  // That event; it stays what it is until it is given back.
  EventHandle lend_deferred();
  void give_back(EventHandle event);

  // The program itself synchronised: everything submitted so far (to the stream, to all) has passed.
  void synchronized(StreamIndex stream);
  void synchronized_all();
  // The same where others go on submitting meanwhile: the newest of every stream before the wait, and after it that
  // these have passed.
  UseSet newest() const;
  void synchronized(const UseSet& uses);

  // The program is about to destroy the stream: a fence is recorded while it still can be. Ordinals stay valid; the
  // handle, when it comes again, is a new stream.
  void retire(StreamHandle handle);

  // Times that the host blocked in synchronize.
  std::uint64_t host_waits() const { return host_waits_; }

  // Recomputes what is cached; checks the invariants below.
  void validate() const;

 private:
  struct Fence {
    Ordinal ordinal;
    EventHandle event;
  };

  // Invariants: passed <= submitted; fences ascend strictly, all above passed and none above submitted; seen[other] <=
  // the ordinal submitted to other. A free stream has no handle and passed == submitted.
  struct Stream {
    StreamHandle handle{};
    std::uint64_t thread = 0;   // owner, for the per-thread handle; else 0
    std::weak_ptr<char> owner;  // gone when that thread has ended
    bool alive = false;         // has a handle
    bool lost = false;          // retired without a fence: only a synchronised context tells
    Ordinal submitted = 0;
    Ordinal passed = 0;
    std::deque<Fence> fences;
    std::vector<Ordinal> seen;       // by stream: newest ordinal that this stream's later work runs after
    std::deque<Ordinal> blocked_at;  // ascending, above passed: operations that may stand
    std::optional<bool> blocking;    // ordered with the legacy stream; asked for when it matters
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
  StreamIndex find_or_register(StreamHandle handle);
  void retire_those_of_ended_threads();
  void retire(Stream& stream, StreamIndex index);
  Stream& at(StreamIndex stream);
  const Stream& at(StreamIndex stream) const;
  static Key key_of(StreamHandle handle);
  bool can_record(const Stream& stream) const;
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
  // Some fence covers the ordinal.
  static bool is_covered(const Stream& stream, Ordinal ordinal) {
    return !stream.fences.empty() && stream.fences.back().ordinal >= ordinal;
  }
  // The oldest fence that does; null when there is none.
  const Fence* covering(const Stream& stream, Ordinal ordinal) const;

  const Driver* driver_;
  std::vector<Stream> streams_;
  std::unordered_map<Key, StreamIndex, KeyHash> index_;
  // The one asked for last, as it mostly is the next time; never the per-thread handle.
  StreamHandle latest_handle_ = kNoHandle;
  StreamIndex latest_{};
  std::vector<EventHandle> spare_events_;
  // Lent out by others' waits: how often, and whether no fence has it any more.
  struct Lent {
    int times = 0;
    bool is_spare = false;
  };
  std::unordered_map<EventHandle, Lent> lent_;
  std::optional<EventHandle> deferred_;
  bool defers_ = false;
  std::uint64_t host_waits_ = 0;
  bool recording_ = false;
  std::size_t blocked_ = 0;  // streams with operations that may stand
};

}  // namespace thermocline
