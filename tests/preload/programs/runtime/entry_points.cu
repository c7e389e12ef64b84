// SPDX-License-Identifier: Apache-2.0
// A program of the runtime that gets driver functions from it (cudaGetDriverEntryPoint).
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kBuffers = 8;
constexpr std::size_t kBytes = std::size_t{4} << 20;

__global__ void add(std::uint32_t* to, const std::uint32_t* from, std::size_t words) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < words) to[i] += from[i];
}

template <class Function>
Function entry_point(const char* name, unsigned int version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status;
  if (cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &status) != cudaSuccess ||
      status != cudaDriverEntryPointSuccess) {
    std::fprintf(stderr, "program: no %s\n", name);
    std::exit(2);
  }
  return reinterpret_cast<Function>(found);
}

int main() {
  const auto allocate = entry_point<CUresult (*)(CUdeviceptr*, std::size_t)>("cuMemAlloc", 3020);
  const auto copy = entry_point<CUresult (*)(void*, CUdeviceptr, std::size_t)>("cuMemcpyDtoH", 3020);
  const auto set = entry_point<CUresult (*)(CUdeviceptr, unsigned, std::size_t)>("cuMemsetD32", 3020);
  if (cudaFree(nullptr) != cudaSuccess) return 2;
  std::vector<CUdeviceptr> buffers(kBuffers);
  for (int i = 0; i < kBuffers; ++i) {
    if (allocate(&buffers[i], kBytes) != CUDA_SUCCESS || set(buffers[i], 1u + i, kBytes / 4) != CUDA_SUCCESS) return 2;
  }
  for (int i = 0; i < kBuffers; ++i) {
    add<<<1024, 256>>>(reinterpret_cast<std::uint32_t*>(buffers[i]),
                       reinterpret_cast<const std::uint32_t*>(buffers[(i + 3) % kBuffers]), kBytes / 4);
  }
  std::vector<std::uint32_t> host(kBytes / 4);
  for (const CUdeviceptr buffer : buffers) {
    if (copy(host.data(), buffer, kBytes) != CUDA_SUCCESS) return 2;
    std::uint64_t digest = 0;
    for (const std::uint32_t word : host) digest = digest * 31 + word;
    std::printf("%016llx\n", static_cast<unsigned long long>(digest));
    if (cudaFree(reinterpret_cast<void*>(buffer)) != cudaSuccess) return 2;
  }
  return 0;
}
