// SPDX-License-Identifier: Apache-2.0
// The other file of linked.cu.
#include <cuda_runtime.h>

#include "tests/simulated_cudart/linked.h"

namespace {
__device__ __noinline__ int to_itself(int x) { return x + 1; }
__device__ int kept = 10;
}  // namespace

__device__ int calls = 0;
__constant__ int factor = 3;
extern __device__ int plus_one(int x);
__device__ __noinline__ int twice_plus_one(int x) { return plus_one(2 * x); }
__device__ int squared(int x) { return x * x; }
__device__ Function chosen = squared;

__global__ void read_parts(int* out) { *out = kept + to_itself(in_both<int>(0)); }

int calls_so_far() {
  int count = -1;
  return cudaMemcpyFromSymbol(&count, calls, sizeof count) == cudaSuccess ? count : -1;
}

int kept_by_the_other() {
  int* on_device = nullptr;
  int found = -1;
  if (cudaMalloc(&on_device, sizeof found) != cudaSuccess) return -1;
  read_parts<<<1, 1>>>(on_device);
  return cudaMemcpy(&found, on_device, sizeof found, cudaMemcpyDeviceToHost) == cudaSuccess ? found : -1;
}
