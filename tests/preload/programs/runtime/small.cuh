// SPDX-License-Identifier: Apache-2.0
// Shared by the small programs of the runtime API: more buffers than a small budget holds, the results of calls, and
// the final contents of the buffers.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kBuffers = 8;
constexpr std::size_t kBytes = std::size_t{4} << 20;
constexpr std::size_t kWords = kBytes / sizeof(std::uint32_t);

inline std::uint32_t* buffers[kBuffers];

#define TELL(call) std::printf("%s: %d\n", #call, static_cast<int>(call))

#define NEED(call)                                                                                  \
  do {                                                                                              \
    if (const cudaError_t error = (call); error != cudaSuccess) {                                   \
      std::fprintf(stderr, "program, line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(error)); \
      std::exit(2);                                                                                 \
    }                                                                                               \
  } while (false)

__global__ void add(std::uint32_t* to, const std::uint32_t* from, std::size_t words) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < words) to[i] += from[i];
}

inline void make_buffers() {
  for (int i = 0; i < kBuffers; ++i) {
    NEED(cudaMalloc(&buffers[i], kBytes));
    NEED(cudaMemset(buffers[i], i + 1, kBytes));
  }
}

inline void mix_all() {
  for (int i = 0; i < kBuffers; ++i) add<<<1024, 1024>>>(buffers[i], buffers[(i + 3) % kBuffers], kWords);
  NEED(cudaGetLastError());
}

inline void print_digest(const void* of, std::size_t bytes) {
  std::uint64_t digest = 0;
  for (std::size_t i = 0; i < bytes; ++i) digest = digest * 31 + static_cast<const unsigned char*>(of)[i];
  std::printf("%016llx\n", static_cast<unsigned long long>(digest));
}

inline int finish() {
  std::vector<std::uint32_t> host(kWords);
  for (std::uint32_t* const buffer : buffers) {
    NEED(cudaMemcpy(host.data(), buffer, kBytes, cudaMemcpyDeviceToHost));
    print_digest(host.data(), kBytes);
    NEED(cudaFree(buffer));
  }
  return 0;
}
