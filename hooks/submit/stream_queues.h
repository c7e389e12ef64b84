// SPDX-License-Identifier: Apache-2.0
// Tracks how full the streams' queues are. The driver's queue holds about a thousand operations of a stream; a call
// that would add another one returns only when the stream has progressed. An engine submits with its lock held, and
// records events in other streams too. So a thread that wants to submit first waits here, without a lock, while the
// stream has so many operations that the driver might wait.
//
// A stream always progresses by itself unless it is blocked by a value, a host function or a semaphore of another API,
// and any of these may need the thread that waits for the lock. In a program that uses none of these, nothing is
// counted and nobody waits.
//
// Operations that the hooks see and those that the engines add are counted. Not counted, because they are few: copies
// of arrays, prefetches of managed memory, signals to other APIs. An event after every 32 operations shows which
// operations have completed.
#pragma once

#include <atomic>

#include "driver/locks.h"
#include "hooks/interpose/cuda_api.h"
#include "hooks/runtime/stream_context.h"

namespace thermocline {

// Call it before the program uses something that may block a stream, without a lock.
void note_streams_may_block();
namespace detail {
// Why a thread may have to wait before it submits: one word, because every launch looks there.
inline constexpr unsigned kStreamsMayBlock = 1;
inline constexpr unsigned kTurns = 2;  // some thread has a stream for itself (stream_turns.h)
extern constinit std::atomic<unsigned> attention;
void wait_before_submitting(StreamHandle stream);
}  // namespace detail
inline bool any_stream_may_block() noexcept {
  return (detail::attention.load(std::memory_order_relaxed) & detail::kStreamsMayBlock) != 0;
}

// For a call that adds to the stream. Construct it while no lock is held: it waits while the stream's queue is too
// full. As long as the object lives, its thread may make the call with locks held (about_to_queue in driver/locks.h).
class [[nodiscard]] RoomInQueue {
 public:
  explicit RoomInQueue(StreamHandle stream) {
    if (detail::attention.load(std::memory_order_relaxed) != 0) [[unlikely]]
      detail::wait_before_submitting(stream);
    queue_has_room(true);
  }
  ~RoomInQueue() { queue_has_room(false); }
  RoomInQueue(const RoomInQueue&) = delete;
  RoomInQueue& operator=(const RoomInQueue&) = delete;
};

// Nothing more is submitted to the stream, or to any stream of the context; `is_gone`: the driver has ended it already.
void end_queue_of(StreamHandle stream);
void end_queues_in(CUcontext context, bool is_gone);
// In the child of a fork: the parent's streams do not exist there.
void abandon_queues();

}  // namespace thermocline
