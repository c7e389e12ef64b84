// SPDX-License-Identifier: Apache-2.0
// The captures that hooks saw begin: whose they are, and in which mode, by which cuda.h forbids threads what belongs to
// no graph (cuThreadExchangeStreamCaptureMode); and captures that the library has refused a part of, which end without
// a graph.
#pragma once

#include "driver/driver.h"
#include "hooks/interpose/cuda_api.h"
#include "hooks/runtime/guarded.h"

namespace thermocline {

// `into`: the program's graph that it records into; null: a new one.
void note_capture(StreamHandle stream, CUstreamCaptureMode mode, CUgraph into);
// The capture that began in the stream is over. False: none began there, or its end was noted before.
bool forget_capture(StreamHandle stream);
// The context is gone, and its streams with it. Answers how many captures ended with them.
int forget_captures_in(CUcontext context);

// Whether the calling thread may not allocate memory outside of streams now. A capture that ended unseen may be among
// the reasons, so the driver has the last word.
bool captures_forbid_allocation();

// The library refuses what the stream was to record. CUDA invalidates a capture in which an operation failed
// (Programming Guide, "Stream Capture Invalidation"), or else the graph would lack that operation: so it becomes
// invalid. Where the stream records nothing, nothing is done. Not under an engine's lock.
void invalidate_capture(StreamHandle stream) noexcept;
// Ends the stream's capture by `end`, the driver's call, which puts the graph there; null: nowhere. Where the driver
// did not make the capture invalid when it was told to, this does: no graph, and the error of invalid captures.
CUresult end_capture(StreamHandle stream, CUgraph* graph, Call end);

}  // namespace thermocline
