// SPDX-License-Identifier: Apache-2.0
// streams: work that is ordered only by events. Each worker stream owns a buffer from cudaMalloc and takes scratch
// memory from a pool with cudaMallocAsync. In every round it combines its own buffer with its neighbor's, and signals
// by an event. Any missing wait shows in the digest.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "examples/common/cuda_check.h"
#include "examples/common/digest.h"
#include "examples/common/grid.h"

namespace {

using examples::require;

constexpr int kStreams = 4;
constexpr int kRounds = 24;
constexpr int kWords = 3 << 18;  // 3 MiB a buffer: whole pages of its own, and not a power of two
constexpr std::size_t kBytes = kWords * sizeof(std::uint32_t);

}  // namespace

// Each word depends on the same word of all operands, so no order of threads matters.
__global__ void stir(int count, std::uint32_t salt, const std::uint32_t* neighbour, std::uint32_t* scratch,
                     std::uint32_t* own) {
  const int i = examples::thread_index();
  if (i >= count) return;
  scratch[i] = (neighbour[i] ^ salt) * 2654435761u;
  own[i] = own[i] * 747796405u + scratch[i] + static_cast<std::uint32_t>(i);
}

namespace {

struct Worker {
  cudaStream_t stream = nullptr;
  cudaEvent_t written = nullptr;
  cudaEvent_t read = nullptr;
  std::uint32_t* words = nullptr;
};

Worker make_worker(int index) {
  Worker worker;
  int least = 0;
  int greatest = 0;
  require(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  require(cudaStreamCreateWithPriority(&worker.stream, cudaStreamNonBlocking, index % 2 == 0 ? least : greatest),
          "cudaStreamCreateWithPriority");
  require(cudaEventCreateWithFlags(&worker.written, cudaEventDisableTiming), "cudaEventCreate");
  require(cudaEventCreateWithFlags(&worker.read, cudaEventDisableTiming), "cudaEventCreate");
  examples::refuse_allocation(cudaMalloc(reinterpret_cast<void**>(&worker.words), kBytes), kBytes, "a worker's buffer");
  require(cudaMemsetAsync(worker.words, 0x11 * (index + 1), kBytes, worker.stream), "cudaMemsetAsync");
  require(cudaEventRecord(worker.written, worker.stream), "cudaEventRecord");
  return worker;
}

// Reads the neighbor's state of the last round, writes this worker's own.
void round_of(Worker& worker, Worker& neighbour, Worker& reader, cudaMemPool_t pool, std::uint32_t salt) {
  std::uint32_t* scratch = nullptr;
  std::uint32_t* snapshot = nullptr;
  examples::refuse_allocation(cudaMallocAsync(reinterpret_cast<void**>(&scratch), kBytes, worker.stream), kBytes,
                              "scratch");
  examples::refuse_allocation(cudaMallocFromPoolAsync(reinterpret_cast<void**>(&snapshot), kBytes, pool, worker.stream),
                              kBytes, "a snapshot");
  require(cudaStreamWaitEvent(worker.stream, neighbour.written, 0), "cudaStreamWaitEvent");
  require(cudaMemcpyAsync(snapshot, neighbour.words, kBytes, cudaMemcpyDeviceToDevice, worker.stream),
          "copy of the neighbour");
  require(cudaEventRecord(worker.read, worker.stream), "cudaEventRecord");
  // A stream that reads this worker's words must have read them before they change.
  require(cudaStreamWaitEvent(worker.stream, reader.read, 0), "cudaStreamWaitEvent");
  stir<<<examples::blocks_for(kWords), examples::kThreadsPerBlock, 0, worker.stream>>>(kWords, salt, snapshot, scratch,
                                                                                       worker.words);
  examples::require_launched("stir");
  require(cudaEventRecord(worker.written, worker.stream), "cudaEventRecord");
  require(cudaFreeAsync(snapshot, worker.stream), "cudaFreeAsync");
  require(cudaFreeAsync(scratch, worker.stream), "cudaFreeAsync");
}

cudaMemPool_t make_pool() {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = 0;
  cudaMemPool_t pool = nullptr;
  require(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  return pool;
}

}  // namespace

int main() {
  examples::program_name = "streams";
  cudaMemPool_t pool = make_pool();
  std::vector<Worker> workers;
  for (int i = 0; i < kStreams; ++i) workers.push_back(make_worker(i));
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  require(cudaEventCreate(&begin), "cudaEventCreate");
  require(cudaEventCreate(&end), "cudaEventCreate");
  require(cudaEventRecord(begin, workers[0].stream), "cudaEventRecord");
  // The workers take turns, so that each reads its neighbor's buffer before or after it has changed, never meanwhile.
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kStreams; ++i) {
      round_of(workers[i], workers[(i + 1) % kStreams], workers[(i + kStreams - 1) % kStreams], pool,
               static_cast<std::uint32_t>(round * kStreams + i));
    }
  }
  require(cudaEventRecord(end, workers[0].stream), "cudaEventRecord");
  examples::Digest digest;
  std::vector<std::uint32_t> words(kWords);
  for (Worker& worker : workers) {
    require(cudaMemcpyAsync(words.data(), worker.words, kBytes, cudaMemcpyDeviceToHost, worker.stream), "download");
    require(cudaStreamSynchronize(worker.stream), "cudaStreamSynchronize");
    digest.add(words.data(), kBytes);
  }
  float milliseconds = 0;
  require(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  std::fprintf(stderr, "streams: %.3f ms on the device\n", static_cast<double>(milliseconds));
  for (Worker& worker : workers) {
    require(cudaFree(worker.words), "cudaFree");
    require(cudaEventDestroy(worker.written), "cudaEventDestroy");
    require(cudaEventDestroy(worker.read), "cudaEventDestroy");
    require(cudaStreamDestroy(worker.stream), "cudaStreamDestroy");
  }
  require(cudaEventDestroy(begin), "cudaEventDestroy");
  require(cudaEventDestroy(end), "cudaEventDestroy");
  require(cudaMemPoolDestroy(pool), "cudaMemPoolDestroy");
  std::printf("digest %016llx\n", static_cast<unsigned long long>(digest.value()));
}
