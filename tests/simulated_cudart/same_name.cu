// SPDX-License-Identifier: Apache-2.0
// A kernel whose name is also that of another one, in another file.
#include "tests/simulated_cudart/stored_addresses.h"

#include <cuda_runtime.h>

// The parameters are of the same types, so that the names are equal.
static __global__ void set(float** table, float* v) { v[threadIdx.x] = table[threadIdx.x] == nullptr ? 1.0f : 2.0f; }

void launch_the_other(float* v, int times) {
  float** table = nullptr;
  if (cudaMalloc(&table, 64 * sizeof *table) != cudaSuccess) return;
  static_cast<void>(cudaMemset(table, 0, 64 * sizeof *table));
  for (int i = 0; i < times; ++i) {
    set<<<1, 32>>>(table, v);
    // Each launch is judged before the next one.
    static_cast<void>(cudaDeviceSynchronize());
  }
}
