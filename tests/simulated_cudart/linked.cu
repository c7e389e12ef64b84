// SPDX-License-Identifier: Apache-2.0
// With linked_parts.cu, a program of two files that nvcc -rdc=true links: kernels use functions, variables and pointers
// to functions of the other file, and each file has a function and a variable of the same name to itself.
#include <cuda_runtime.h>

#include <cstdio>

#include "tests/simulated_cudart/linked.h"

namespace {
__device__ __noinline__ int to_itself(int x) { return x + 1000; }
__device__ int kept = 1;
}  // namespace

extern __device__ int calls;
extern __constant__ int factor;
extern __device__ Function chosen;
extern __device__ int twice_plus_one(int x);

__device__ int plus_one(int x) { return x + 1; }

__global__ void use_both(int* out) {
  atomicAdd(&calls, 1);
  atomicAdd(&kept, 2);
  const int i = static_cast<int>(threadIdx.x);
  out[i] = twice_plus_one(i) * factor + chosen(i) + to_itself(0) + in_both<int>(i);
}

__global__ void read_kept(int* out) { *out = kept; }

int main() {
  constexpr int kThreads = 32;
  int* on_device = nullptr;
  if (cudaMalloc(&on_device, kThreads * sizeof(int)) != cudaSuccess) return 1;
  use_both<<<1, kThreads>>>(on_device);
  int found[kThreads] = {};
  if (cudaMemcpy(found, on_device, sizeof found, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  int wrong = 0;
  for (int i = 0; i < kThreads; ++i) wrong += found[i] != (2 * i + 1) * 3 + i * i + 1000 + 7 * i;
  read_kept<<<1, 1>>>(on_device);
  if (cudaMemcpy(found, on_device, sizeof found[0], cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  std::printf("wrong %d, %d calls, kept %d and %d\n", wrong, calls_so_far(), found[0], kept_by_the_other());
  return 0;
}
