// SPDX-License-Identifier: Apache-2.0
// Stream capture: streams that record what they are given instead of running it (CUDA driver API, cuStreamBeginCapture
// and cuThreadExchangeStreamCaptureMode; Programming Guide, "Creating a Graph Using Stream Capture").
//
// A capture begins in one stream, its origin. Other streams join it when they wait for an event that was recorded in a
// stream of the capture. A prohibited call invalidates the capture: its calls then fail until the origin ends it.
//
// Invariants: every stream is part of at most one capture; the origin of a live capture is among its streams; the nodes
// that a stream's next node is ordered after belong to its capture's graph.
#pragma once

#include <memory>

#include "simulator/cuda/graph/graph.h"

namespace simulator::cuda {

struct Capture {
  unsigned long long id = 0;
  StreamId origin = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  unsigned long long thread = 0;  // the thread that began it
  CUgraph graph = nullptr;
  bool owns_graph = true;  // false: it captures into a graph of the program's
  bool is_invalid = false;
  bool is_over = false;
};

// The calling thread's mode, which it can exchange.
CUstreamCaptureMode& thread_capture_mode();

// Null if the stream is not capturing.
Captured* captured(State& state, StreamId stream);

// Invalidates the capture; returns the error for the call that caused it.
CUresult invalidate(Capture& capture, CUresult error);

// Whether the calling thread may make a call that could disturb a capture: allocating, waiting, querying events.
// Captures that the call disturbs are invalidated.
CUresult may_disturb(Call& call);
// Whether it may wait for the whole context, which is not allowed while any stream in it captures.
CUresult may_wait_for_context(Call& call);

// Queues the work, or, if the stream is capturing, adds it to the graph. `operation`: what was queued, else 0.
CUresult submit(Call& call, StreamId stream, Work work, CUfunction function = nullptr,
                OperationId* operation = nullptr);
// Adds a node to the stream's capture; later nodes of the stream are ordered after it.
CUresult add_captured(Call& call, Captured& stream, CUgraphNode_st node);
// An error if the stream is capturing (its capture is invalidated), or if other captures forbid using it.
CUresult may_wait_for_stream(Call& call, StreamId stream);

CUresult record_captured(Call& call, CUevent event, Captured& stream, bool external);
// True if the wait is complete with this, because one of the two is part of a capture.
bool wait_captured(Call& call, StreamId stream, bool is_blocking, CUevent event, bool external, CUresult* result);
// Whether everything that `other` captured is ordered before what `stream` captures next.
bool is_behind(const Captured& stream, const Captured& other);
// The stream is destroyed: its capture fails, unless another stream has joined it.
void forget_captured_stream(Call& call, StreamId stream);

}  // namespace simulator::cuda
