// SPDX-License-Identifier: Apache-2.0
// What the program submits as one operation, and the library as several (a graph in parts): nothing that another thread
// submits to the stream comes between them, as nothing would without the library.
#pragma once

#include "hooks/interpose/cuda_api.h"
#include "hooks/runtime/stream_context.h"

namespace thermocline {

// As long as the object lives, other threads wait that submit to the stream (to any stream, where this is the legacy one,
// which others are ordered with; and to the legacy one), and those that want a turn with the same `of`. Begun without a
// lock. A thread has one turn at a time.
class [[nodiscard]] StreamTurn {
 public:
  StreamTurn(StreamHandle stream, const void* of);
  ~StreamTurn();
  StreamTurn(const StreamTurn&) = delete;
  StreamTurn& operator=(const StreamTurn&) = delete;
};

// Waits while another thread has a turn there; a second at most, because that thread may wait in turn for what this one
// does next. Without a lock.
void wait_for_turn(StreamHandle stream);

}  // namespace thermocline
