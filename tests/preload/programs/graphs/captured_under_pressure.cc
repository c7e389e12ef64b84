// SPDX-License-Identifier: Apache-2.0
// One thread captures small graphs in global mode, again and again, while three others launch kernels on two buffers each,
// together more than the budget, and never wait. No capture may be invalidated: the program makes no call that captures
// forbid.
#include <atomic>
#include <thread>
#include <vector>

#include "tests/preload/programs/small.h"

namespace {
constexpr int kWorkers = 3, kRounds = 60;

bool capture_one(CUstream stream, CUdeviceptr word) {
  CUgraph graph = nullptr;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  std::this_thread::yield();
  const bool captures = cuMemsetD32Async(word, 1, 16, stream) == CUDA_SUCCESS;
  const bool ends = cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS;
  if (graph != nullptr) CHECK(cuGraphDestroy(graph));
  return captures && ends;
}
}  // namespace

int main() {
  begin();
  make_buffers();
  CUstream stream = nullptr, others[kWorkers] = {};
  CUdeviceptr word = 0;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (CUstream& other : others) CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&word, 4096));
  CHECK(cuCtxSynchronize());
  std::atomic<int> at_work{kWorkers};
  std::vector<std::thread> workers;
  for (int i = 0; i < kWorkers; ++i) {
    workers.emplace_back([i, &at_work, stream = others[i]] {
      CHECK(cuCtxSetCurrent(context));
      for (int round = 0; round < kRounds; ++round)
        mix_on(stream, buffers[round % 2 == 0 ? i : i + kWorkers], buffers[round % 2 == 0 ? i + kWorkers : i]);
      --at_work;
    });
  }
  int lost = 0;
  while (at_work > 0) lost += capture_one(stream, word) ? 0 : 1;
  for (std::thread& worker : workers) worker.join();
  printf("lost: %d\n", lost);
  CHECK(cuCtxSynchronize());
  CHECK(cuMemFree(word));
  CHECK(cuStreamDestroy(stream));
  for (CUstream other : others) CHECK(cuStreamDestroy(other));
  return finish();
}
