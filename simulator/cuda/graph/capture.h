// SPDX-License-Identifier: Apache-2.0
// Streams that record what they are given instead of running it (CUDA driver API, cuStreamBeginCapture and
// cuThreadExchangeStreamCaptureMode; Programming Guide, "Creating a Graph Using Stream Capture").
//
// A capture begins in one stream, its origin; other streams take part from the moment they wait for an event that was
// recorded in one that does. What is not allowed meanwhile makes the capture invalid: its calls fail until the origin
// ends it.
//
// Invariants: every stream takes part in at most one capture; the origin of a live capture is among its streams; nodes
// that a stream comes behind are of its capture's graph.
#pragma once

#include <memory>

#include "simulator/cuda/graph/graph.h"

namespace simulator::cuda {

struct Capture {
  unsigned long long id = 0;
  StreamId origin = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  unsigned long long thread = 0;  // that began it
  CUgraph graph = nullptr;
  bool owns_graph = true;  // else it records into a graph of the program's
  bool is_invalid = false;
  bool is_over = false;
};

// The calling thread's, which it exchanges.
CUstreamCaptureMode& thread_capture_mode();

// Null where the stream records nothing.
Captured* captured(State& state, StreamId stream);

// Makes the capture fail; the error is what the call that did it answers.
CUresult invalidate(Capture& capture, CUresult error);

// Whether the calling thread may make a call that could disturb a capture: allocating, waiting, asking events. Captures
// that it disturbs become invalid.
CUresult may_disturb(Call& call);
// The same for the whole context: it can not be waited for while anything in it records.
CUresult may_wait_for_context(Call& call);

// Queues the work, or adds it to the graph that the stream records. `operation`: of what was queued, else 0.
CUresult submit(Call& call, StreamId stream, Work work, CUfunction function = nullptr,
                OperationId* operation = nullptr);
// Adds a node to what the stream records; behind it come the stream's later ones.
CUresult add_captured(Call& call, Captured& stream, CUgraphNode_st node);
// An error where the stream records, whose capture becomes invalid, or may not be used for other captures' sake.
CUresult may_wait_for_stream(Call& call, StreamId stream);

CUresult record_captured(Call& call, CUevent event, Captured& stream, bool external);
// True where that was all: one of both takes part in a capture.
bool wait_captured(Call& call, StreamId stream, bool is_blocking, CUevent event, bool external, CUresult* result);
// Whether all that `other` recorded comes before what `stream` records next.
bool is_behind(const Captured& stream, const Captured& other);
// Of a stream that ends: its capture fails, unless another stream has joined it.
void forget_captured_stream(Call& call, StreamId stream);

}  // namespace simulator::cuda
