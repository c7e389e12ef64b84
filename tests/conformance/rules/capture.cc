// SPDX-License-Identifier: Apache-2.0
// Stream capture and graphs.
#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "capture";
#define CAPTURE "Stream Management: cuStreamBeginCapture"

CUstream capturing(Session& session, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
  const Driver& cu = session.driver();
  const CUstream in = session.stream();
  session.function("conformance_add");
  session.prepare_busy();
  OK(cu.cuStreamBeginCapture(in, mode));
  return in;
}

RULE(streams_do_not_capture_by_themselves, "A stream does not capture until it is told to",
     "Stream Management: cuStreamIsCapturing") {
  auto status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  OK(cu.cuStreamIsCapturing(session.stream(), &status));
  HOLDS(status == CU_STREAM_CAPTURE_STATUS_NONE, "none");
}

RULE(capture_mode_is_exchanged, "A thread's capture mode is global at first, and setting one returns the previous one",
     "Stream Management: cuThreadExchangeStreamCaptureMode") {
  auto mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
  HOLDS(mode == CU_STREAM_CAPTURE_MODE_GLOBAL, "global at first");
  OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
  HOLDS(mode == CU_STREAM_CAPTURE_MODE_RELAXED, "relaxed as it was set");
}

RULE(capture_does_not_run, "Work submitted while a stream captures does not run, and runs when the graph is launched",
     CAPTURE "; Graph Management: cuGraphLaunch") {
  const CUdeviceptr at = session.allocate(4096);
  OK(cu.cuMemsetD32(at, 0, 1024));
  session.synchronize();
  const CUstream in = capturing(session);
  session.add(at, 1024, 3, in);
  CUgraph graph = nullptr;
  OK(cu.cuStreamEndCapture(in, &graph));
  session.synchronize();
  HOLDS(session.holds(at, 1024, 0), "nothing has run");
  CUgraphExec ready = nullptr;
  OK(cu.cuGraphInstantiate(&ready, graph, 0));
  for (int i = 0; i < 3; ++i) OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, 1024, 9), "each launch ran it once");
  OK(cu.cuGraphExecDestroy(ready));
  OK(cu.cuGraphDestroy(graph));
}

RULE(capture_tells_its_state, "A capturing stream reports that it captures", "Stream Management: cuStreamIsCapturing") {
  const CUstream in = capturing(session);
  auto status = CU_STREAM_CAPTURE_STATUS_NONE;
  OK(cu.cuStreamIsCapturing(in, &status));
  HOLDS(status == CU_STREAM_CAPTURE_STATUS_ACTIVE, "active");
  CUgraph graph = nullptr;
  OK(cu.cuStreamEndCapture(in, &graph));
  OK(cu.cuStreamIsCapturing(in, &status));
  HOLDS(status == CU_STREAM_CAPTURE_STATUS_NONE, "none at the end");
}

RULE(capture_follows_events,
     "A stream that waits for an event recorded during capture also captures, and joins by another event",
     "Programming Guide: CUDA Graphs, Cross-stream Dependencies and Events") {
  const CUdeviceptr at = session.allocate(4096);
  OK(cu.cuMemsetD32(at, 0, 1024));
  const CUstream other = session.stream();
  const CUevent fork = session.event(), join = session.event();
  session.synchronize();
  const CUstream in = capturing(session);
  OK(cu.cuEventRecord(fork, in));
  OK(cu.cuStreamWaitEvent(other, fork, 0));
  session.add(at, 1024, 1, other);
  OK(cu.cuEventRecord(join, other));
  OK(cu.cuStreamWaitEvent(in, join, 0));
  session.add(at, 1024, 10, in);
  CUgraph graph = nullptr;
  OK(cu.cuStreamEndCapture(in, &graph));
  CUgraphExec ready = nullptr;
  OK(cu.cuGraphInstantiate(&ready, graph, 0));
  OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, 1024, 11), "both additions ran");
}

RULE(synchronising_a_capture_breaks_it,
     "A capturing stream cannot be synchronized; the attempt ends the capture without a graph",
     "Programming Guide: CUDA Graphs, Prohibited and Unhandled Operations", .open = "which error") {
  const CUstream in = capturing(session);
  FAILS(cu.cuStreamSynchronize(in));
  CUgraph graph = nullptr;
  FAILS(cu.cuStreamEndCapture(in, &graph));
  HOLDS(graph == nullptr, "no graph");
}

RULE(asking_a_capture_breaks_it,
     "A capturing stream cannot be queried; the attempt ends the capture without a graph, also in a thread whose mode "
     "is relaxed, and ends no other capture",
     "Programming Guide: CUDA Graphs, Prohibited and Unhandled Operations", .open = "which error") {
  const CUstream in = capturing(session, CU_STREAM_CAPTURE_MODE_RELAXED);
  const CUstream other = capturing(session, CU_STREAM_CAPTURE_MODE_RELAXED);
  auto mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
  FAILS(cu.cuStreamQuery(in));
  OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
  auto status = CU_STREAM_CAPTURE_STATUS_NONE;
  OK(cu.cuStreamIsCapturing(in, &status));
  HOLDS(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED, "invalidated");
  CUgraph graph = nullptr;
  FAILS(cu.cuStreamEndCapture(in, &graph));
  HOLDS(graph == nullptr, "no graph");
  OK(cu.cuStreamEndCapture(other, &graph));
  OK(cu.cuGraphDestroy(graph));
}

RULE(query_of_captured_event_fails, "An event that was recorded during capture cannot be queried",
     "Stream Management: cuThreadExchangeStreamCaptureMode", .open = "which error") {
  const CUstream in = capturing(session);
  const CUevent event = session.event();
  OK(cu.cuEventRecord(event, in));
  FAILS(cu.cuEventQuery(event));
}

RULE(capture_forbids_unsafe_calls,
     "While a thread captures, memory cannot be allocated in it, unless its mode is relaxed",
     "Stream Management: cuThreadExchangeStreamCaptureMode", .open = "which error") {
  const CUstream in = capturing(session, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  CUdeviceptr at = 0;
  auto mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
  OK(cu.cuMemAlloc(&at, 4096));
  OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
  FAILS(cu.cuMemAlloc(&at, 4096));
  CUgraph graph = nullptr;
  FAILS(cu.cuStreamEndCapture(in, &graph));
}

RULE(legacy_stream_does_not_capture, "The legacy stream cannot capture", CAPTURE, .open = "which error") {
  FAILS(cu.cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

RULE(capture_ends_where_it_began, "A capture that was not begun cannot be ended",
     "Stream Management: cuStreamEndCapture", .open = "which error") {
  CUgraph graph = nullptr;
  FAILS(cu.cuStreamEndCapture(session.stream(), &graph));
}

}  // namespace
}  // namespace conformance
