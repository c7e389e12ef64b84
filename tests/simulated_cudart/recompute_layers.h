// SPDX-License-Identifier: Apache-2.0
// Shared by the steps of recompute_steps.cu and recompute_lasting.cu: buffers, and the kernels of a layer.
#pragma once

#include <cuda_runtime.h>

#include "examples/common/device_buffer.h"

namespace layers {

// Four elements for each thread, so that there are fewer threads to run.
using Buffer = examples::DeviceBuffer<float4>;
using examples::require;

constexpr int kCount = 1 << 17;  // 2 MiB: a block of its own
constexpr int kThreads = 256, kBlocks = kCount / kThreads;

__device__ inline int own() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }
__device__ inline float4 sum(float4 a, float x, float4 b, float y) {
  return {a.x * x + b.x * y, a.y * x + b.y * y, a.z * x + b.z * y, a.w * x + b.w * y};
}

static __global__ void make_input(float4* out, int count, unsigned seed) {
  const int i = own();
  if (i >= count) return;
  const float value = static_cast<float>((static_cast<unsigned>(i) * 2654435761u ^ seed) >> 16 & 0xff) / 256.0f;
  out[i] = {value, 1.0f - value, value * value, 0.5f};
}
// Its threads are counted by atomic operations: it never runs again.
static __global__ void sum_blocks(const float4* in, float4* sums) {
  __shared__ float all[kThreads];
  __shared__ int threads;
  if (threadIdx.x == 0) threads = 0;
  __syncthreads();
  all[threadIdx.x] = in[own()].x;
  atomicAdd(&threads, 1);
  __syncthreads();
  if (threadIdx.x != 0) return;
  float total = 0;
  for (int i = 0; i < kThreads; i += 16) total += all[i];
  total *= static_cast<float>(threads) / kThreads;
  sums[blockIdx.x] = {total, total, total, total};
}
static __global__ void relu(float4* values, int count) {
  const int i = own();
  if (i >= count) return;
  const float4 value = values[i];
  values[i] = {fmaxf(value.x, 0.0f), fmaxf(value.y, 0.0f), fmaxf(value.z, 0.0f), fmaxf(value.w, 0.0f)};
}
static __global__ void backward(const float4* in, const float4* out, float4* gradient, int count) {
  const int i = own();
  if (i < count) gradient[i] = sum(gradient[i], out[i].x > 0 ? 0.5f : 0.25f, in[i], 0.5f);
}

}  // namespace layers
