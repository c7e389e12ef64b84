// SPDX-License-Identifier: Apache-2.0
// One thread launches a graph that copies a word aside, works on all buffers, and copies the word back: whatever is in the
// stream before or behind it, the word stays. Another thread writes the word in the same stream, again and again, and
// reads it back. Nothing that it writes may get lost, as it would where it came between the parts of the graph. With "both"
// two threads launch such graphs in one stream, each of which writes a word first, and reads it last.
#include <atomic>
#include <thread>

#include "tests/preload/programs/small.h"

namespace {
constexpr int kLaunches = 12;

// How often the word that the graph has read was not what it had written.
int launches_with_others(CUstream stream, CUdeviceptr word, unsigned value) {
  CUstream recording = nullptr;
  CUdeviceptr seen = 0;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  unsigned found = 0;
  int lost = 0;
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuMemAlloc(&seen, 4096));
  CHECK(cuStreamCreate(&recording, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(recording, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuMemsetD32Async(word, value, 1024, recording));
  mix_all(recording);
  CHECK(cuMemcpyDtoDAsync(seen, word, 4096, recording));
  CHECK(cuStreamEndCapture(recording, &graph));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphDestroy(graph));
  for (int i = 0; i < kLaunches; ++i) {
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuMemcpyDtoHAsync(&found, seen, 4, stream));
    CHECK(cuStreamSynchronize(stream));
    if (found != value) ++lost;
  }
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuStreamDestroy(recording));
  CHECK(cuMemFree(seen));
  return lost;
}

int launch_in_two_threads() {
  CUstream stream = nullptr;
  CUdeviceptr word = 0;
  int lost = 0;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&word, 4096));
  std::thread other([&] { lost = launches_with_others(stream, word, 1); });
  const int lost_here = launches_with_others(stream, word, 2);
  other.join();
  printf("lost: %d\n", lost + lost_here);
  CHECK(cuMemFree(word));
  CHECK(cuStreamDestroy(stream));
  return finish();
}
}  // namespace

int main(int count, char**) {
  begin();
  make_buffers();
  if (count > 1) return launch_in_two_threads();
  CUstream stream = nullptr;
  CUdeviceptr word = 0, aside = 0;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&word, 4096));
  CHECK(cuMemAlloc(&aside, 4096));
  CHECK(cuMemsetD32(word, 0, 1024));
  CHECK(cuCtxSynchronize());
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuMemcpyDtoDAsync(aside, word, 4096, stream));
  mix_all(stream);
  CHECK(cuMemcpyDtoDAsync(word, aside, 4096, stream));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphDestroy(graph));
  std::atomic<bool> done{false};
  std::atomic<int> lost{0};
  std::thread writer([&] {
    CHECK(cuCtxSetCurrent(context));
    unsigned* found = nullptr;
    CHECK(cuMemAllocHost(reinterpret_cast<void**>(&found), 4096));
    for (unsigned value = 1; !done; ++value) {
      CHECK(cuMemsetD32Async(word, value, 1, stream));
      CHECK(cuMemcpyDtoHAsync(found, word, 4, stream));
      CHECK(cuStreamSynchronize(stream));
      if (*found != value) ++lost;
    }
    CHECK(cuMemFreeHost(found));
  });
  for (int i = 0; i < kLaunches; ++i) CHECK(cuGraphLaunch(exec, stream));
  CHECK(cuStreamSynchronize(stream));
  done = true;
  writer.join();
  printf("lost: %d\n", lost.load());
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuMemFree(word));
  CHECK(cuMemFree(aside));
  CHECK(cuStreamDestroy(stream));
  return finish();
}
