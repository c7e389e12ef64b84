// SPDX-License-Identifier: Apache-2.0
// A program of the runtime API with kernels that have no host implementation: the simulated device mixes everything
// that their parameters name. It is compiled twice, the second time with per-thread default streams.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int kBuffers = 10;
constexpr std::size_t kWords = 1 << 20;

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void require(cudaError_t result, const char* what) {
  if (result != cudaSuccess) throw Failure(std::string(what) + ": " + cudaGetErrorString(result));
}
#define REQUIRE(call) require(call, #call)

struct Pair {
  char tag;
  float* to;
  const float* from;
} __attribute__((packed));

struct Table {
  float* rows[kBuffers];
};

}  // namespace

__global__ void blend(float* to, const float* a, const float* b, std::size_t words, float factor) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < words) to[i] = factor * a[i] + b[i];
}

__global__ void move(Pair pair, std::size_t words) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < words) pair.to[i] = pair.from[i];
}

template <int kRows>
__global__ void sum(Table table, float* to, std::size_t words) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  for (int row = 0; i < words && row < kRows; ++row) to[i] += table.rows[row][i];
}

namespace {

std::uint64_t digest_of(const std::vector<float>& words, std::uint64_t digest) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(words.data());
  for (std::size_t i = 0; i < words.size() * sizeof(float); ++i) digest = (digest ^ bytes[i]) * 0x100000001b3u;
  return digest;
}

void run() {
  constexpr std::size_t kBytes = kWords * sizeof(float);
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<float> host(kWords);
  std::vector<float*> buffers(kBuffers);
  for (int i = 0; i < kBuffers; ++i) {
    if (i % 2 == 0) {
      REQUIRE(cudaMalloc(reinterpret_cast<void**>(&buffers[i]), kBytes));
    } else {
      REQUIRE(cudaMallocAsync(reinterpret_cast<void**>(&buffers[i]), kBytes, stream));
      REQUIRE(cudaStreamSynchronize(stream));
    }
    for (std::size_t word = 0; word < kWords; ++word) host[word] = static_cast<float>(word % 100 + i);
    REQUIRE(cudaMemcpy(buffers[i], host.data(), kBytes, cudaMemcpyHostToDevice));
  }
  const unsigned grid = static_cast<unsigned>(kWords / 256);
  Table table{};
  for (int i = 0; i < 4; ++i) table.rows[i] = buffers[i];
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kBuffers; ++i) {
      blend<<<grid, 256>>>(buffers[i], buffers[(i + 3) % kBuffers], buffers[(i + 7) % kBuffers], kWords, 0.5f);
      REQUIRE(cudaGetLastError());
      move<<<grid, 256>>>(Pair{'p', buffers[(i + 1) % kBuffers], buffers[i]}, kWords / 2);
      REQUIRE(cudaGetLastError());
    }
    REQUIRE(cudaDeviceSynchronize());
    sum<2><<<grid, 256, 0, stream>>>(table, buffers[9], kWords);
    REQUIRE(cudaGetLastError());
    REQUIRE(
        cudaMemcpy2DAsync(buffers[5], 4096, buffers[9], 4096, 1000, kBytes / 4096, cudaMemcpyDeviceToDevice, stream));
    REQUIRE(cudaMemsetAsync(buffers[6], round, kBytes / 3, stream));
    REQUIRE(cudaStreamSynchronize(stream));
  }
  std::uint64_t digest = 0xcbf29ce484222325u;
  for (float* buffer : buffers) {
    REQUIRE(cudaMemcpy(host.data(), buffer, kBytes, cudaMemcpyDeviceToHost));
    digest = digest_of(host, digest);
  }
  for (float* buffer : buffers) REQUIRE(cudaFree(buffer));
  REQUIRE(cudaStreamDestroy(stream));
  std::printf("digest %016llx\n", static_cast<unsigned long long>(digest));
}

}  // namespace

int main() {
  try {
    run();
    // An error of the runtime, thrown as an exception of the program.
    REQUIRE(cudaMemcpy(nullptr, nullptr, 16, cudaMemcpyKind(77)));
  } catch (const Failure& failure) {
    std::printf("caught: %s\n", failure.what());
    return std::string(failure.what()).find("cudaMemcpyKind(77)") == std::string::npos ? 1 : 0;
  }
  return 1;
}
