// SPDX-License-Identifier: Apache-2.0
// The same by threads that share: a warp for each row, and products of tiles in shared memory.
#pragma once

#include "examples/transformer/kernels.cuh"

namespace transformer {

constexpr int kTile = 16;

__device__ inline float sum_of_warp(float value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}
__device__ inline float largest_of_warp(float value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}

// One block of a warp for each row: its sums by shuffles.
static __global__ void layer_norm_of_warps(const float* in, const float* gain, float2* moments, float* out) {
  static_assert(kWidth == 32);
  const int row = static_cast<int>(blockIdx.x), column = static_cast<int>(threadIdx.x);
  const float value = in[row * kWidth + column];
  const float mean = sum_of_warp(value) / kWidth;
  const float deviation = rsqrtf(sum_of_warp(value * value) / kWidth - mean * mean + 1e-5f);
  if (column == 0) moments[row] = make_float2(mean, deviation);
  out[row * kWidth + column] = (value - mean) * deviation * gain[column];
}
// In place.
static __global__ void softmax_of_warps(float* scores) {
  static_assert(kTokens == 32);
  const int i = static_cast<int>(blockIdx.x) * kTokens + static_cast<int>(threadIdx.x);
  const float value = scores[i];
  const float power = expf(value - largest_of_warp(value));
  scores[i] = power / sum_of_warp(power);
}

// Whole tiles.
static __global__ void tiled_product(const float* in, const float* weights, float* out, int depth, int columns) {
  __shared__ float left[kTile][kTile], right[kTile][kTile];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int column = static_cast<int>(blockIdx.x) * kTile + x, row = static_cast<int>(blockIdx.y) * kTile + y;
  float sum = 0;
  for (int begin = 0; begin < depth; begin += kTile) {
    left[y][x] = in[row * depth + begin + x];
    right[y][x] = weights[(begin + y) * columns + column];
    __syncthreads();
    for (int k = 0; k < kTile; ++k) sum += left[y][k] * right[k][x];
    __syncthreads();
  }
  out[row * columns + column] = sum;
}

}  // namespace transformer
