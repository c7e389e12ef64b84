// SPDX-License-Identifier: Apache-2.0
// Captures that end without a graph: because of what the program does, and because of what it is refused. Nothing of
// them has run, and the stream goes on as before.
#include <algorithm>
#include <cstdint>

#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

void set_something(World& world, CUstream stream, const Slice& to) {
  CHECK_CUDA(cuMemsetD32Async(to.address(), static_cast<unsigned>(world.random.next()), to.bytes() / 4, stream));
}

// Ends the capture, which has to fail with that.
void expect_no_graph(const World& world, CUstream stream, CUresult expected) {
  CUgraph graph = nullptr;
  const CUresult ended = cuStreamEndCapture(stream, &graph);
  if (ended != expected) world.fail("the end of a failed capture", ended, expected);
  if (graph != nullptr) world.fail("the graph of a failed capture", 1, 0);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK_CUDA(cuStreamIsCapturing(stream, &status));
  if (status != CU_STREAM_CAPTURE_STATUS_NONE) world.fail("a stream behind a failed capture", status, 0);
}

// A wait for a capturing stream makes its capture invalid.
void wait_while_recording(World& world) {
  if (world.buffers().empty()) return;
  const Slice to = world.any_slice();
  if (to.buffer->memory == nullptr || !to.buffer->memory->may_be_recorded) return;
  const CUstream stream = world.stream(world.own_stream());
  CHECK_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  set_something(world, stream, to);
  const CUresult waited = cuStreamSynchronize(stream);
  if (waited != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) world.fail("a wait for a stream that records", waited, 0);
  expect_no_graph(world, stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

// A stream that takes part and does not come back.
void leave_unjoined(World& world) {
  if (world.buffers().empty()) return;
  const Slice to = world.any_slice();
  if (to.buffer->memory == nullptr || !to.buffer->memory->may_be_recorded) return;
  const unsigned first = world.own_stream();
  const CUstream one = world.stream(first), two = world.stream((first + 1) % kLegacy);
  CUevent forked = nullptr;
  CHECK_CUDA(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
  CHECK_CUDA(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK_CUDA(cuEventRecord(forked, one));
  CHECK_CUDA(cuStreamWaitEvent(two, forked, 0));
  set_something(world, two, to);
  expect_no_graph(world, one, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  CHECK_CUDA(cuEventDestroy(forked));
}

constexpr std::uint64_t kLarge = 26 * kMiB;

// Two buffers for calls that may be refused; calls that are not refused have run.
struct Pair {
  CUdeviceptr from = 0, to = 0;
  bool is_there = false;
  Pair() { is_there = cuMemAlloc(&from, kLarge) == CUDA_SUCCESS && cuMemAlloc(&to, kLarge) == CUDA_SUCCESS; }
  ~Pair() {
    for (const CUdeviceptr one : {from, to}) {
      if (one != 0) CHECK_CUDA(cuMemFree(one));
    }
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
};

bool may_be_refused(const World& world, CUresult result) {
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY) world.fail("what may be refused", result, 2);
  return result == CUDA_ERROR_OUT_OF_MEMORY;
}

// Whether it was launched.
bool run_recorded_copy(World& world, CUstream stream, const Pair& pair) {
  CHECK_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  if (may_be_refused(world, cuMemcpyDtoDAsync(pair.to, pair.from, kLarge, stream))) {
    expect_no_graph(world, stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    return false;
  }
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CHECK_CUDA(cuStreamEndCapture(stream, &graph));
  bool launched = !may_be_refused(world, cuGraphInstantiate(&exec, graph, 0));
  launched = launched && !may_be_refused(world, cuGraphLaunch(exec, stream));
  CHECK_CUDA(cuStreamSynchronize(stream));
  if (exec != nullptr) CHECK_CUDA(cuGraphExecDestroy(exec));
  CHECK_CUDA(cuGraphDestroy(graph));
  return launched;
}

// Both ends of a copy are together more than most budgets.
void record_what_may_be_refused(World& world) {
  if (world.options.threads > 1 || !world.random.one_in(3)) return;
  const Pair pair;
  if (!pair.is_there) return;
  const CUstream stream = world.stream(world.own_stream());
  const auto from = static_cast<unsigned>(world.random.next()), to = static_cast<unsigned>(world.random.next());
  CHECK_CUDA(cuMemsetD32Async(pair.from, from, kLarge / 4, stream));
  CHECK_CUDA(cuMemsetD32Async(pair.to, to, kLarge / 4, stream));
  const unsigned expected = run_recorded_copy(world, stream, pair) ? from : to;
  for (const std::uint64_t at : {std::uint64_t{0}, kLarge / 2, kLarge - 4}) {
    unsigned found = 0;
    CHECK_CUDA(cuMemcpyDtoHAsync(&found, pair.to + at, sizeof found, stream));
    CHECK_CUDA(cuStreamSynchronize(stream));
    if (found != expected) world.fail("what a copy that may be refused left", found, expected);
  }
}

const Registered<Step> one({{"capture_waited_for", 1}, wait_while_recording});
const Registered<Step> two({{"capture_left_unjoined", 1}, leave_unjoined});
const Registered<Step> three({{"capture_refused", 1}, record_what_may_be_refused});
}  // namespace
