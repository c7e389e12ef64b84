// SPDX-License-Identifier: Apache-2.0
// The host waits or queries; streams are created and destroyed; host functions run in streams.
#include <atomic>

#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

void wait_for_stream(World& world) { CHECK_CUDA(cuStreamSynchronize(world.stream(world.any_stream()))); }
// Not while another thread may be capturing.
void wait_for_all(World& world) {
  if (world.options.threads == 1) CHECK_CUDA(cuCtxSynchronize());
}

void ask(World& world) {
  const CUresult answer = cuStreamQuery(world.stream(world.any_stream()));
  if (answer != CUDA_ERROR_NOT_READY) CHECK_CUDA(answer);
}

void wait_for_event(World& world) {
  CUevent event = nullptr;
  CHECK_CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK_CUDA(cuEventRecord(event, world.stream(world.any_stream())));
  const CUresult answer = cuEventQuery(event);
  if (answer != CUDA_ERROR_NOT_READY) CHECK_CUDA(answer);
  CHECK_CUDA(cuEventSynchronize(event));
  CHECK_CUDA(cuEventDestroy(event));
}

void replace(World& world) {
  for (const auto& graph : world.graphs()) CHECK_CUDA(cuStreamSynchronize(world.stream(graph->used.stream)));
  world.replace_stream(world.own_stream());
}

void CUDA_CB count(void* calls) { static_cast<std::atomic<unsigned>*>(calls)->fetch_add(1); }
void CUDA_CB count_and_say(CUstream, CUresult result, void* calls) {
  if (result == CUDA_SUCCESS) count(calls);
}

void call_the_host(World& world) {
  std::atomic<unsigned> calls = 0;
  const unsigned stream = world.any_stream();
  CHECK_CUDA(cuLaunchHostFunc(world.stream(stream), count, &calls));
  CHECK_CUDA(cuStreamAddCallback(world.stream(stream), count_and_say, &calls, 0));
  CHECK_CUDA(cuStreamSynchronize(world.stream(stream)));
  if (calls != 2) world.fail("calls of the host", calls, 2);
}

const Registered<Step> one({{"wait_for_stream", 3}, wait_for_stream});
const Registered<Step> two({{"wait_for_all", 1}, wait_for_all});
const Registered<Step> three({{"query_stream", 1}, ask});
const Registered<Step> four({{"wait_for_event", 1}, wait_for_event});
const Registered<Step> five({{"replace_stream", 1}, replace});
const Registered<Step> six({{"call_the_host", 1}, call_the_host});
}  // namespace
