// SPDX-License-Identifier: Apache-2.0
// Captures that the hooks have seen begin: their thread, and their mode, from which cuda.h derives what threads may not
// do meanwhile (cuThreadExchangeStreamCaptureMode). Also captures in which the library has refused an operation; these
// end without a graph.
#pragma once

#include "driver/driver.h"
#include "hooks/interpose/cuda_api.h"
#include "hooks/runtime/guarded.h"

namespace thermocline {

// `into`: the program's graph that is captured into; null: a new one.
void note_capture(StreamHandle stream, CUstreamCaptureMode mode, CUgraph into);
// The stream's capture has ended. False: none had begun there, or its end was noted before.
bool forget_capture(StreamHandle stream);
// The context and its streams no longer exist. Returns how many captures ended with them.
int forget_captures_in(CUcontext context);

// Whether captures forbid the calling thread to allocate memory outside of stream order. This may include a capture
// whose end was not seen, so the driver has the final decision.
bool captures_forbid_allocation();

// Invalidates the stream's capture, because the library has refused an operation that was to be captured. CUDA does the
// same when an operation fails (Programming Guide, "Stream Capture Invalidation"); otherwise the graph would lack that
// operation. Does nothing if the stream is not capturing. Must not be called under an engine's lock.
void invalidate_capture(StreamHandle stream) noexcept;
// Ends the stream's capture with `end`, the driver's call, which stores the graph there; null: the graph is not wanted.
// If the driver did not invalidate the capture when it should have, this function does: it returns no graph and the
// error for invalidated captures.
CUresult end_capture(StreamHandle stream, CUgraph* graph, Call end);

}  // namespace thermocline
