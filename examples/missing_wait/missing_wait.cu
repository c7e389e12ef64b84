// SPDX-License-Identifier: Apache-2.0
// missing_wait [--wait]: one stream computes, another copies the results to the host. Without --wait the event between
// them is missing, an error that usually has no visible effect: `thermocline run --simulate reference --check` names
// both operations.
#include <cstdio>
#include <cstring>

#include "examples/common/cuda_check.h"
#include "examples/common/device_buffer.h"
#include "examples/common/digest.h"
#include "examples/common/grid.h"

__global__ void square(int count, int* values) {
  const int i = examples::thread_index();
  if (i < count) values[i] = i * i % 1021;
}

int main(int argc, char** argv) {
  using examples::require;
  examples::program_name = "missing_wait";
  const bool waits = argc == 2 && std::strcmp(argv[1], "--wait") == 0;
  if (argc > 1 && !waits) {
    std::fprintf(stderr, "usage: missing_wait [--wait]\n");
    return 2;
  }
  constexpr int kCount = 1 << 20;
  const examples::DeviceBuffer<int> values(kCount, "values");
  const examples::PinnedBuffer<int> home(kCount, "results");

  cudaStream_t compute, copy;
  cudaEvent_t computed;
  require(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking), "cudaStreamCreate");
  require(cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking), "cudaStreamCreate");
  require(cudaEventCreateWithFlags(&computed, cudaEventDisableTiming), "cudaEventCreate");

  square<<<examples::blocks_for(kCount), examples::kThreadsPerBlock, 0, compute>>>(kCount, values.get());
  examples::require_launched("square");
  require(cudaEventRecord(computed, compute), "cudaEventRecord");
  if (waits) require(cudaStreamWaitEvent(copy, computed, 0), "cudaStreamWaitEvent");
  require(cudaMemcpyAsync(home.get(), values.get(), values.bytes(), cudaMemcpyDeviceToHost, copy), "download");
  require(cudaStreamSynchronize(copy), "cudaStreamSynchronize");

  examples::Digest digest;
  digest.add(home.get(), home.bytes());
  std::printf("digest %016llx\n", static_cast<unsigned long long>(digest.value()));
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  require(cudaEventDestroy(computed), "cudaEventDestroy");
  require(cudaStreamDestroy(compute), "cudaStreamDestroy");
  require(cudaStreamDestroy(copy), "cudaStreamDestroy");
}
