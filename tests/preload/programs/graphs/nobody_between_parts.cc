// SPDX-License-Identifier: Apache-2.0
// One thread launches a graph that copies a word aside, works on all buffers, and copies the word back: whatever is in the
// stream before or behind it, the word stays. Another thread writes the word in the same stream, again and again, and
// reads it back. Nothing that it writes may get lost, as it would where it came between the parts of the graph.
#include <atomic>
#include <thread>

#include "tests/preload/programs/small.h"

int main() {
  constexpr int kLaunches = 12;
  begin();
  make_buffers();
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
