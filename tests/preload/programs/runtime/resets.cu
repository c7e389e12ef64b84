// SPDX-License-Identifier: Apache-2.0
// cudaDeviceReset destroys everything; the program begins again.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <vector>

constexpr int kBuffers = 8;
constexpr std::size_t kBytes = std::size_t{4} << 20;

__global__ void add(std::uint32_t* to, const std::uint32_t* from, std::size_t words) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < words) to[i] += from[i];
}

int main() {
  std::vector<std::uint32_t> host(kBytes / 4);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::uint32_t*> buffers(kBuffers);
    for (std::uint32_t*& buffer : buffers) {
      if (cudaMalloc(&buffer, kBytes) != cudaSuccess || cudaMemset(buffer, round + 1, kBytes) != cudaSuccess) return 2;
    }
    for (int i = 0; i < kBuffers; ++i) add<<<1024, 256>>>(buffers[i], buffers[(i + 3) % kBuffers], kBytes / 4);
    for (std::uint32_t* buffer : buffers) {
      if (cudaMemcpy(host.data(), buffer, kBytes, cudaMemcpyDeviceToHost) != cudaSuccess) return 2;
      std::uint64_t digest = 0;
      for (const std::uint32_t word : host) digest = digest * 31 + word;
      std::printf("%016llx\n", static_cast<unsigned long long>(digest));
    }
    if (cudaDeviceReset() != cudaSuccess) return 2;
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return 2;
    std::printf("free again %d\n", free > total / 2);
  }
  return 0;
}
