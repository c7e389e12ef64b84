// SPDX-License-Identifier: Apache-2.0
// A transformer's kernels, one thread for each number that is made; what adds up over a row goes through it in one thread.
#pragma once

#include <cuda_runtime.h>

namespace transformer {

constexpr int kWidth = 32, kHidden = 4 * kWidth, kTokens = 32, kHeads = 2, kHeadWidth = kWidth / kHeads;
// Rows whose sums are made one by one for the gradients of weights.
constexpr int kRowsOfAChunk = 256;

__device__ inline int own() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }
__device__ inline int own_y() { return static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y); }

__device__ inline unsigned mixed(unsigned value) {
  value = (value ^ (value >> 16)) * 0x45d9f3bu;
  value = (value ^ (value >> 16)) * 0x45d9f3bu;
  return value ^ (value >> 16);
}
// Random numbers come from a counter: the same for the same place and seed.
__device__ inline float dropped(float value, int i, unsigned seed) {
  return (mixed(static_cast<unsigned>(i) ^ seed) & 7) != 0 ? value * (8.0f / 7.0f) : 0.0f;
}

static __global__ void make_input(float* out, int count, unsigned seed) {
  const int i = own();
  if (i < count) out[i] = static_cast<float>(mixed(static_cast<unsigned>(i) ^ seed) & 0xffff) / 65536.0f - 0.5f;
}

// Mean and inverse deviation of each row.
static __global__ void find_moments(const float* in, float2* moments, int rows) {
  const int row = own();
  if (row >= rows) return;
  float sum = 0, squares = 0;
  for (int c = 0; c < kWidth; ++c) {
    const float value = in[row * kWidth + c];
    sum += value;
    squares += value * value;
  }
  const float mean = sum / kWidth;
  moments[row] = make_float2(mean, rsqrtf(squares / kWidth - mean * mean + 1e-5f));
}
static __global__ void normalize(const float* in, const float2* moments, const float* gain, float* out, int count) {
  const int i = own();
  if (i >= count) return;
  const float2 of_row = moments[i / kWidth];
  out[i] = (in[i] - of_row.x) * of_row.y * gain[i % kWidth];
}

// rows x depth times depth x columns.
static __global__ void product(const float* in, const float* weights, float* out, int rows, int depth, int columns) {
  const int column = own(), row = own_y();
  if (row >= rows || column >= columns) return;
  float sum = 0;
  for (int k = 0; k < depth; ++k) sum += in[row * depth + k] * weights[k * columns + column];
  out[row * columns + column] = sum;
}
// rows x depth times the transposed of columns x depth.
static __global__ void product_transposed(const float* in, const float* weights, float* out, int rows, int depth,
                                          int columns) {
  const int column = own(), row = own_y();
  if (row >= rows || column >= columns) return;
  float sum = 0;
  for (int k = 0; k < depth; ++k) sum += in[row * depth + k] * weights[column * depth + k];
  out[row * columns + column] = sum;
}

// Reads queries, keys and values, side by side in each row. Computes one score per sequence, head, query and key.
static __global__ void find_scores(const float* qkv, float* scores, int count) {
  const int i = own();
  if (i >= count) return;
  const int key = i % kTokens, query = i / kTokens % kTokens, head = i / (kTokens * kTokens) % kHeads;
  const int first_row = i / (kTokens * kTokens * kHeads) * kTokens;
  const float* const q = qkv + (first_row + query) * 3 * kWidth + head * kHeadWidth;
  const float* const k = qkv + (first_row + key) * 3 * kWidth + kWidth + head * kHeadWidth;
  float sum = 0;
  for (int c = 0; c < kHeadWidth; ++c) sum += q[c] * k[c];
  scores[i] = key <= query ? sum * rsqrtf(static_cast<float>(kHeadWidth)) : -1e30f;
}
// The largest score of each row, and the sum of all exponentials.
static __global__ void find_softmax_sums(const float* scores, float2* sums, int rows) {
  const int row = own();
  if (row >= rows) return;
  float largest = -1e30f, sum = 0;
  for (int c = 0; c < kTokens; ++c) largest = fmaxf(largest, scores[row * kTokens + c]);
  for (int c = 0; c < kTokens; ++c) sum += expf(scores[row * kTokens + c] - largest);
  sums[row] = make_float2(largest, sum);
}
static __global__ void softmax(float* scores, const float2* sums, int count) {
  const int i = own();
  if (i < count) scores[i] = expf(scores[i] - sums[i / kTokens].x) / sums[i / kTokens].y;
}
static __global__ void find_context(const float* parts, const float* qkv, float* out, int count) {
  const int i = own();
  if (i >= count) return;
  const int column = i % kWidth, row = i / kWidth, head = column / kHeadWidth;
  const int sequence = row / kTokens, query = row % kTokens;
  const float* const part = parts + ((sequence * kHeads + head) * kTokens + query) * kTokens;
  float sum = 0;
  for (int key = 0; key <= query; ++key)
    sum += part[key] * qkv[(sequence * kTokens + key) * 3 * kWidth + 2 * kWidth + column];
  out[i] = sum;
}

static __global__ void drop_and_add(const float* residual, const float* values, float* out, int count, unsigned seed) {
  const int i = own();
  if (i < count) out[i] = residual[i] + dropped(values[i], i, seed);
}
static __global__ void gelu(const float* in, float* out, int count) {
  const int i = own();
  if (i >= count) return;
  const float x = in[i];
  out[i] = 0.5f * x * (1.0f + tanhf(0.7978846f * (x + 0.044715f * x * x * x)));
}

static __global__ void begin_backward(const float* out, float* gradient, int count, unsigned seed) {
  const int i = own();
  if (i >= count) return;
  const float wanted = static_cast<float>(mixed(static_cast<unsigned>(i) ^ seed) & 0xff) / 256.0f;
  gradient[i] = (out[i] - wanted) / kWidth;
}
static __global__ void drop_backward(const float* gradient, float* out, int count, unsigned seed) {
  const int i = own();
  if (i < count) out[i] = dropped(gradient[i], i, seed);
}
// In place.
static __global__ void gelu_backward(const float* in, float* gradient, int count) {
  const int i = own();
  if (i >= count) return;
  const float x = in[i], tangent = tanhf(0.7978846f * (x + 0.044715f * x * x * x));
  const float slope = 0.7978846f * (1.0f + 3 * 0.044715f * x * x);
  gradient[i] *= 0.5f * (1.0f + tangent) + 0.5f * x * (1.0f - tangent * tangent) * slope;
}
// Each row's sums of gradients, and of gradients times normalized values, for the gradient of the normalized input.
static __global__ void find_norm_sums(const float* in, const float2* moments, const float* gain, const float* gradient,
                                      float2* sums, int rows) {
  const int row = own();
  if (row >= rows) return;
  float sum = 0, product = 0;
  for (int c = 0; c < kWidth; ++c) {
    const int i = row * kWidth + c;
    sum += gradient[i] * gain[c];
    product += gradient[i] * gain[c] * (in[i] - moments[row].x) * moments[row].y;
  }
  sums[row] = make_float2(sum / kWidth, product / kWidth);
}
// Added to the gradient of the residual.
static __global__ void normalize_backward(const float* in, const float2* moments, const float* gain,
                                          const float* gradient, const float2* sums, float* residual, int count) {
  const int i = own();
  if (i >= count) return;
  const float2 of_row = moments[i / kWidth], sum = sums[i / kWidth];
  const float normal = (in[i] - of_row.x) * of_row.y;
  residual[i] += of_row.y * (gradient[i] * gain[i % kWidth] - sum.x - normal * sum.y);
}
static __global__ void find_score_gradients(const float* gradient, const float* qkv, float* out, int count) {
  const int i = own();
  if (i >= count) return;
  const int key = i % kTokens, query = i / kTokens % kTokens, head = i / (kTokens * kTokens) % kHeads;
  const int first_row = i / (kTokens * kTokens * kHeads) * kTokens;
  const float* const of_query = gradient + (first_row + query) * kWidth + head * kHeadWidth;
  const float* const value = qkv + (first_row + key) * 3 * kWidth + 2 * kWidth + head * kHeadWidth;
  float sum = 0;
  for (int c = 0; c < kHeadWidth; ++c) sum += of_query[c] * value[c];
  out[i] = sum;
}
static __global__ void find_softmax_products(const float* parts, const float* gradient, float* products, int rows) {
  const int row = own();
  if (row >= rows) return;
  float sum = 0;
  for (int c = 0; c < kTokens; ++c) sum += parts[row * kTokens + c] * gradient[row * kTokens + c];
  products[row] = sum;
}
// In place.
static __global__ void softmax_backward(const float* parts, const float* products, float* gradient, int count) {
  const int i = own();
  if (i >= count) return;
  gradient[i] = parts[i] * (gradient[i] - products[i / kTokens]) * rsqrtf(static_cast<float>(kHeadWidth));
}
// Computes the gradients of queries, keys and values.
static __global__ void attention_backward(const float* parts, const float* score_gradient, const float* qkv,
                                          const float* gradient, float* out, int count) {
  const int i = own();
  if (i >= count) return;
  const int column = i % kWidth, which = i / kWidth % 3, row = i / (3 * kWidth), head = column / kHeadWidth;
  const int sequence = row / kTokens, token = row % kTokens;
  const int first = (sequence * kHeads + head) * kTokens * kTokens;
  float sum = 0;
  for (int other = 0; other < kTokens; ++other) {
    const int other_row = sequence * kTokens + other;
    if (which == 0) sum += score_gradient[first + token * kTokens + other] * qkv[(other_row * 3 + 1) * kWidth + column];
    if (which == 1) sum += score_gradient[first + other * kTokens + token] * qkv[other_row * 3 * kWidth + column];
    if (which == 2) sum += parts[first + other * kTokens + token] * gradient[other_row * kWidth + column];
  }
  out[i] = sum;
}

// Computes the gradient of each weight over the rows of one chunk.
static __global__ void find_weight_gradients(const float* in, const float* gradient, float* partial, int depth,
                                             int columns) {
  const int i = own(), chunk = static_cast<int>(blockIdx.y);
  if (i >= depth * columns) return;
  float sum = 0;
  for (int row = chunk * kRowsOfAChunk; row < (chunk + 1) * kRowsOfAChunk; ++row)
    sum += in[row * depth + i / columns] * gradient[row * columns + i % columns];
  partial[chunk * depth * columns + i] = sum;
}
static __global__ void find_gain_gradients(const float* in, const float2* moments, const float* gradient,
                                           float* partial) {
  const int column = static_cast<int>(threadIdx.x), chunk = static_cast<int>(blockIdx.x);
  float sum = 0;
  for (int row = chunk * kRowsOfAChunk; row < (chunk + 1) * kRowsOfAChunk; ++row)
    sum += (in[row * kWidth + column] - moments[row].x) * moments[row].y * gradient[row * kWidth + column];
  partial[chunk * kWidth + column] = sum;
}
static __global__ void sum_chunks(const float* partial, float* out, int chunks, int count) {
  const int i = own();
  if (i >= count) return;
  float sum = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) sum += partial[chunk * count + i];
  out[i] = sum;
}
static __global__ void adam(float* weights, float* means, float* squares, const float* gradient, int count,
                            float scale_of_mean, float scale_of_squares) {
  const int i = own();
  if (i >= count) return;
  const float g = gradient[i];
  means[i] = 0.9f * means[i] + 0.1f * g;
  squares[i] = 0.99f * squares[i] + 0.01f * g * g;
  weights[i] -= 0.003f * (means[i] * scale_of_mean) / (sqrtf(squares[i] * scale_of_squares) + 1e-8f);
}

}  // namespace transformer
