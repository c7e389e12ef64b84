// SPDX-License-Identifier: Apache-2.0
// Turns at a stream. The library submits one operation of the program as several (a graph in segments); a turn keeps
// operations that other threads submit to the stream from coming between them, as they could not without the library.
#pragma once

#include "hooks/interpose/cuda_api.h"
#include "hooks/runtime/stream_context.h"
#include "hooks/submit/stream_queues.h"

namespace thermocline {

// As long as the object lives, other threads wait (as wait_for_turn says) that submit to the stream (to any stream, where this is the legacy one,
// which others are ordered with; and to the legacy one), and those that want a turn with the same `of`. Begun without a
// lock. A thread has one turn at a time.
class [[nodiscard]] StreamTurn {
 public:
  StreamTurn(StreamHandle stream, const void* of);
  ~StreamTurn();
  StreamTurn(const StreamTurn&) = delete;
  StreamTurn& operator=(const StreamTurn&) = delete;
};

// Waits while another thread has a turn there. Where streams may be blocked, a second at most, because that thread may
// wait for what this one does next; then the answer is false. Without a lock.
bool wait_for_turn(StreamHandle stream);
// Whether another thread has a turn there. Asked with the engine's lock held, as which each part is submitted, before an
// operation is: so it comes before all parts, or is told of the turn.
bool is_anothers_turn(StreamHandle stream);
inline bool any_turn() noexcept { return (detail::attention.load(std::memory_order_relaxed) & detail::kTurns) != 0; }

}  // namespace thermocline
