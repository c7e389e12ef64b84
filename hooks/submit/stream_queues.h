// SPDX-License-Identifier: Apache-2.0
// How full the queues of streams are. The driver holds about a thousand operations of a stream, and a call that adds
// another one returns when the stream has gone on. An engine submits with its lock held, and asks for events to be
// recorded in the streams of others: so whoever submits waits here first, with no lock held, while the stream has so
// many that the driver might.
//
// A stream goes on by itself unless it stands behind a value or a function of the host, which may wait for the thread
// that waits for the lock. Nothing is counted, and nobody waits, in a program that has asked for neither.
//
// Counted is what the hooks see and what the engines add. Not counted, since they are few: copies of arrays, managed
// memory's prefetches, other APIs' semaphores. An event behind every 32 operations tells which have gone on.
#pragma once

#include "hooks/interpose/cuda_api.h"
#include "hooks/runtime/stream_context.h"

namespace thermocline {

// The program has asked for what a stream may stand behind.
void streams_may_block() noexcept;

// Before a call puts something into the stream. Waits while there is too much in it: no lock is held by the caller.
void wait_for_queue(StreamHandle stream);

// Nothing more is submitted to the stream, or to any of the context; `is_gone`: the driver has ended it already.
void end_queue_of(StreamHandle stream);
void end_queues_in(CUcontext context, bool is_gone);
// In the child of a fork: its parent's streams are not its own.
void abandon_queues();

}  // namespace thermocline
