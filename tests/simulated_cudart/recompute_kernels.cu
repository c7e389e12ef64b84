// SPDX-License-Identifier: Apache-2.0
// Kernels as programs have them, of which it is to be proven that they may run again (namespace may_), and kernels and
// launches that only look like them (namespace must_not_): places left out or written twice, bounds and strides of
// another dimension, numbers that wrap around.
//
//   recompute_kernels [NAME...]    default: all. Prints "NAME DIGEST WRONG" for each, as recompute_traps.cu
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <string>

#include "tests/simulated_cudart/recompute_traps.h"

namespace traps {
namespace {

// 1,024 columns in 512 rows: 2 MiB.
constexpr int kW = 1024, kH = 512;
const dim3 kTile(32, 8), kGrid(kW / 32, kH / 8), kMoreThanAll(kW / 32 + 1, kH / 8 + 1);

__device__ inline int own_x() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }
__device__ inline int own_y() { return static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y); }

struct Shape {
  const float* in;
  float* out;
  long long offset;
  std::size_t width, height;
};
struct Inputs {
  const float* in[3];
  float* out;
  int count;
};

}  // namespace

namespace may_ {

__global__ void product(const float* a, const float* b, float* c, int rows, int columns, int inner) {
  const int row = own_y(), column = own_x();
  if (row >= rows || column >= columns) return;
  float sum = 0;
  for (int k = 0; k < inner; ++k) sum += a[row * inner + k] * b[k * columns + column];
  c[row * columns + column] = sum;
}
__global__ void transpose(const float* in, float* out, int width, int height) {
  const int x = own_x(), y = own_y();
  if (x < width && y < height) out[x * height + y] = in[y * width + x];
}
__global__ void blur(const float* in, float* out, int width, int height) {
  const int x = own_x(), y = own_y();
  if (x >= width || y >= height) return;
  float sum = 0;
  for (int dy = -1; dy <= 1; ++dy) {
    for (int dx = -1; dx <= 1; ++dx)
      sum += in[min(max(y + dy, 0), height - 1) * width + min(max(x + dx, 0), width - 1)];
  }
  out[y * width + x] = sum;
}
__global__ void bias_and_relu(float* values, const float* bias, int columns) {
  const int column = own_x(), row = static_cast<int>(blockIdx.y);
  if (column < columns) values[row * columns + column] = fmaxf(values[row * columns + column] - bias[column], 0.0f);
}
__global__ void row_of_block(const float* in, const float* bias, float* out, int columns) {
  const int row = static_cast<int>(blockIdx.x);
  for (int c = static_cast<int>(threadIdx.x); c < columns; c += blockDim.x)
    out[row * columns + c] = in[row * columns + c] + bias[c];
}
__global__ void row_of_pointer(const float* in, float* out, int columns) {
  const float* const from = in + static_cast<std::size_t>(blockIdx.x) * static_cast<std::size_t>(columns);
  float* const to = out + static_cast<std::size_t>(blockIdx.x) * static_cast<std::size_t>(columns);
  for (int c = static_cast<int>(threadIdx.x); c < columns; c += blockDim.x) to[c] = from[c] * 2.0f;
}
__global__ void batch(const float* in, float* out, int width, int height) {
  const int x = own_x(), y = own_y(), z = static_cast<int>(blockIdx.z);
  if (x < width && y < height) out[(z * height + y) * width + x] = in[(z * height + y) * width + x] + 1.0f;
}
__global__ void volume(const float* in, float* out, int width, int height, int depth) {
  const int x = own_x(), y = own_y(), z = static_cast<int>(blockIdx.z * blockDim.z + threadIdx.z);
  if (x < width && y < height && z < depth) out[(z * height + y) * width + x] = in[(z * height + y) * width + x] - 1.0f;
}
__global__ void flat_grid(const float* in, float* out, int count) {
  const int i = static_cast<int>((blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x);
  if (i < count) out[i] = in[i] + 4.0f;
}
__global__ void wide(Shape of) {
  const std::size_t x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < of.width && y < of.height)
    of.out[y * of.width + x] = of.in[static_cast<long long>(y * of.width + x) + of.offset];
}
__global__ void fixed_tile(const float* in, float* out) {
  const int x = static_cast<int>(blockIdx.x * 32 + threadIdx.x), y = static_cast<int>(blockIdx.y * 8 + threadIdx.y);
  out[y * kW + x] = in[y * kW + x] * 3.0f;
}
__global__ void constant_bound(const float* in, float* out) {
  const int i = own();
  if (i < kCount) out[i] = in[i] + 5.0f;
}
__global__ void constant_loop(const float* in, float* out) {
  const int row = own();
#pragma unroll 1
  for (int c = 0; c < 64; ++c) out[row * 64 + c] = in[row * 64 + c] + 5.0f;
}
__global__ void four_each(const float* in, float* out, int count) {
  const int i = own();
  for (int k = 0; i < count && k < 4; ++k) out[4 * i + k] = in[4 * i + k] * 2.0f;
}
__global__ void three_inputs(Inputs of) {
  const int i = own();
  if (i < of.count) of.out[i] = of.in[0][i] + of.in[1][i] - of.in[2][i];
}
__global__ void with_bias(const float* in, const float* bias, const float* scale, float* out, int count) {
  const int i = own();
  if (i >= count) return;
  float value = in[i];
  if (scale != nullptr) value *= scale[i];
  if (bias != nullptr) value += bias[i];
  out[i] = value;
}
__global__ void gather(const long long* rows, const float* table, float* out, int columns) {
  const int column = own_x(), row = static_cast<int>(blockIdx.y);
  if (column < columns) out[row * columns + column] = table[rows[row] * columns + column];
}
__global__ void small_sum(const float* a, const float* b, float* small, float* out, int few) {
  const int i = own();
  if (i >= few) return;
  small[i] = a[i] + b[few - 1 - i];
  out[2 * i] = b[i];
  out[2 * i + 1] = a[i];
}
// Where it reads is not followed.
__global__ void repeated(const float* from, float* out, int count, int few) {
  const int i = own();
  if (i < count) out[i] = from[(i & (few - 1)) - few] * 2.0f;
}
__global__ void either_way(const float* in, float* out, int first, int count) {
  const int i = own();
  if (i < first) {
    out[i] = in[i];
  } else if (i < count) {
    out[i] = in[i] > 500.0f ? sqrtf(in[i]) : in[i / 2] / 3.0f;
  }
}
__global__ void from_the_end(const float* in, float* out, int count) {
  const int i = own();
  if (i < count) out[count - 1 - i] = in[i] + 6.0f;
}
__global__ void from_the_end_in_loops(const float* in, float* out, std::size_t count) {
#pragma unroll 1
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    out[count - 1 - i] = in[i] + 7.0f;
}
__global__ void mirrored(const float* in, float* out, unsigned width, unsigned height) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) out[y * width + (width - 1 - x)] = in[y * width + x];
}
__global__ void halves(const __half* in, __half* out, int count) {
  const int i = own();
  if (i < count) out[i] = __hgt(in[i], __float2half(1.0f)) ? hsqrt(in[i]) : hexp(in[i]);
}
__global__ void half_pairs(const __half2* in, __half2* out, int count) {
  const int i = own();
  if (i < count) out[i] = __hfma2(in[i], in[i], __hmax2(in[i], __float2half2_rn(0.5f)));
}
__global__ void bfloats(const __nv_bfloat16* in, __nv_bfloat16* out, int width, int height) {
  const int x = own_x(), y = own_y();
  if (x < width && y < height) out[y * width + x] = in[y * width + x] * in[y * width + x] + __float2bfloat16(1.0f);
}

// By the address of its end, where no other buffer begins.
__global__ void before_the_end(const float* end, int few, float* out, int count) {
  const int i = own();
  if (i < count) out[i] = end[i % few - few] + 1.0f;
}

// A pointer that the kernel never uses, and one of which it only asks whether it is null.
__global__ void spare(const float* in, const float*, float* out, const float* asked, int count) {
  const int i = own();
  if (i < count) out[i] = asked != nullptr ? in[i] + 1.0f : 0.0f;
}

}  // namespace may_

// Where two threads write to one place, they write the same, so that the order does not matter.
namespace must_not_ {

__device__ inline void store(float* out, int at) { out[at] = static_cast<float>(at % 1009); }

__global__ void other_bound(float* out, int width, int columns, int height) {
  const int x = own_x(), y = own_y();
  if (x < columns && y < height) store(out, y * width + x);
}
__global__ void wrong_block(float* out, int width, int height) {
  const int x = own_x(), y = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.y);
  if (x < width && y < height) store(out, y * width + x);
}
__global__ void by_columns(float* out, int width, int height) {
  const int x = own_x(), y = own_y();
  if (x < width && y < height) store(out, x * width + y);
}
__global__ void stride_in_memory(const int* stride, float* out, int width, int height) {
  const int x = own_x(), y = own_y();
  if (x < width && y < height) out[y * *stride + x] = 6.0f;
}
// 2^30 times four times the row is 0.
__global__ void wraps(float* out, int quarter, int width, int height) {
  const int x = own_x(), y = own_y();
  if (x < width && y < height)
    out[static_cast<int>(4u * static_cast<unsigned>(y) * static_cast<unsigned>(quarter)) + x] = 7.0f;
}
__global__ void one_dimension(float* out, int count) {
  const int i = own();
  if (i < count) store(out, i);
}
__global__ void other_step(float* out, int columns, int step) {
  const int row = static_cast<int>(blockIdx.x);
#pragma unroll 1
  for (int c = static_cast<int>(threadIdx.x); c < columns; c += step) store(out, row * columns + c);
}
__global__ void ends_early(const float* in, float* out, int columns) {
  const int row = static_cast<int>(blockIdx.x);
#pragma unroll 1
  for (int c = static_cast<int>(threadIdx.x); c < columns; c += static_cast<int>(blockDim.x)) {
    if (in[row * columns + c] > 900.0f) break;
    out[row * columns + c] = 8.0f;
  }
}
__global__ void goes_on(float* out, int columns, int times) {
  const int row = static_cast<int>(blockIdx.x);
  int c = static_cast<int>(threadIdx.x);
#pragma unroll 1
  for (int i = 0; i < times; ++i, c += static_cast<int>(blockDim.x)) {
    if (c < columns) out[row * columns + c] = 9.0f;
  }
}
__global__ void right_neighbour(float* values, int width, int height) {
  const int x = own_x(), y = own_y();
  if (x < width - 1 && y < height) values[y * width + x] = values[y * width + x + 1] + 1.0f;
}
// No thread reads what another one writes, but no thread reads its own place either.
__global__ void upper_half(float* values, int count) {
  const int i = own();
  if (i < count / 2) values[i] = values[i + count / 2] + 1.0f;
}
// In place, by the address of the end, and by an index that is not followed.
__global__ void from_behind(const float* end, float* values, float* out, int count) {
  const int i = own();
  if (i >= count) return;
  const float value = end[(i & (count - 1)) - count] + 1.0f;
  values[i] = value;
  out[2 * i] = value;
  out[2 * i + 1] = value;
}
__global__ void either_output(float* one, float* other, int first, int count) {
  const int i = own();
  if (i < first) {
    one[i] = 18.0f;
  } else if (i < count) {
    other[i] = 19.0f;
  }
}
__global__ void either_width(float* out, int first, int count) {
  const int i = own();
  if (i < first) {
    out[i] = 20.0f;
  } else if (i < count) {
    *reinterpret_cast<short*>(out + i) = 21;
  }
}
__global__ void either_or_neither(const float* in, float* out, int first, int count) {
  const int i = own();
  if (i < first) {
    out[i] = 22.0f;
    return;
  }
  if (in[i] > 900.0f) return;
  if (i < count) out[i] = 23.0f;
}
__global__ void from_the_end_in_part(float* out, int count, int end) {
  const int i = own();
  if (i < count) out[end - 1 - i] = 16.0f;
}
__global__ void from_the_end_of_few(float* out, int count) {
  const int i = own();
  if (i < count) out[count - 1 - i] = 17.0f;
}
__global__ void mirrored_columns(float* out, int width, int columns, int height) {
  const int x = own_x(), y = own_y();
  if (x < columns && y < height) store(out, y * width + (columns - 1 - x));
}
// The distance from the end is taken twice: what lies behind the middle goes where another thread stores, too.
__global__ void there_and_back(float* out, int count) {
  const int i = own();
  if (i < count) store(out, i < count / 2 ? count - 1 - i : count - 1 - (count - 1 - i));
}
__global__ void stores_beyond(float* out, int width, int height) {
  const int x = own_x(), y = own_y();
  if (y >= height) return;
  if (x >= width) {
    out[2 * y * width + x] = -1.0f;
    return;
  }
  out[2 * y * width + x] = 10.0f;
}
__global__ void triangle(float* out, int width, int height) {
  const int x = own_x(), y = own_y();
  if (x < width && y < height && x + y < width) out[y * width + x] = 11.0f;
}
__global__ void two_strides(float* out, int count) {
  const int i = own();
  if (2 * i >= count) return;
  out[i] = 12.0f;
  out[2 * i] = 12.0f;
}
__global__ void late_place(float* out, int columns) {
  float* at = out + blockIdx.x * static_cast<unsigned>(columns) + threadIdx.x;
#pragma unroll 1
  for (int c = static_cast<int>(threadIdx.x); c < columns; c += static_cast<int>(blockDim.x)) {
    *at = 14.0f;
    if (c % 3 != 0) at += blockDim.x;
  }
}
__global__ void padded_batch(float* out, int width, int height, int distance) {
  const int x = own_x(), y = own_y();
  if (x < width && y < height) store(out, static_cast<int>(blockIdx.z) * distance + y * width + x);
}
__global__ void unguarded(float* out, int width) { out[own_y() * width + own_x()] = static_cast<float>(threadIdx.x); }
__global__ void from_a_column(float* out, int width, int height, int first) {
  const int x = own_x(), y = own_y();
  if (x >= first && x < width && y < height) out[y * width + x] = 15.0f;
}
__global__ void in_order(const float* one, const float* other, float* out, int count) {
  const int i = own();
  if (i < count) out[i] = one != other ? one[i] - other[i] : 0.0f;
}
__global__ void picks(Inputs of, int inputs) {
  const int i = own();
  if (i >= of.count) return;
  float sum = 0;
  for (int k = 0; k < inputs; ++k) sum += of.in[k][i];
  of.out[i] = sum;
}

}  // namespace must_not_

namespace {

// The earlier contents are another pattern: contents that a kernel leaves unchanged must equal it.
struct Written : Memory {
  Written() { upload(*this, 41); }
};

template <class Launch>
void expect_each(Result* result, Launch launch) {
  const Memory in;
  const Written out;
  upload(in, 40);
  launch(in.at, out.at);
  result->add(out.at);
}

void products(Result* result) {
  const Memory a(kH * 8 * 4), b(8 * kW * 4);
  upload(a, 1, kH * 8);
  upload(b, 2, 8 * kW);
  const Written c;
  may_::product<<<kMoreThanAll, kTile>>>(a.at, b.at, c.at, kH, kW, 8);
  result->add(c.at);
}
void images(Result* result) {
  expect_each(result, [](float* in, float* out) { may_::transpose<<<kMoreThanAll, kTile>>>(in, out, kW, kH); });
  expect_each(result, [](float* in, float* out) { may_::blur<<<kMoreThanAll, kTile>>>(in, out, kW, kH); });
  expect_each(result, [](float* in, float* out) { may_::fixed_tile<<<kGrid, kTile>>>(in, out); });
  // The rows behind the last of the grid stay what they were.
  expect_each(result, [](float* in, float* out) { may_::blur<<<dim3(kW / 32, 7), kTile>>>(in, out, kW, kH); });
}
void rows(Result* result) {
  // In place, of what can be made again.
  expect_each(result, [](float* in, float* out) {
    may_::row_of_pointer<<<kH, 128>>>(in, out, kW);
    may_::bias_and_relu<<<dim3(kW / 128, kH), 128>>>(out, in, kW);
  });
  expect_each(result, [](float* in, float* out) { may_::row_of_block<<<kH, 96>>>(in, in, out, kW); });
  expect_each(result, [](float* in, float* out) { may_::row_of_pointer<<<kH, 96>>>(in, out, kW); });
}
void volumes(Result* result) {
  const dim3 grid(kW / 32, kH / 64, 8);
  expect_each(result, [&](float* in, float* out) { may_::batch<<<grid, kTile>>>(in, out, kW, kH / 8); });
  expect_each(result, [&](float* in, float* out) {
    may_::volume<<<dim3(kW / 32, kH / 32, 5), dim3(32, 4, 2)>>>(in, out, kW, kH / 8, 8);
  });
  expect_each(result, [](float* in, float* out) { may_::flat_grid<<<dim3(64, 65), 128>>>(in, out, kCount); });
  expect_each(result, [](float* in, float* out) { may_::wide<<<kMoreThanAll, kTile>>>({in, out, 0, kW, kH}); });
}
void constants(Result* result) {
  expect_each(result, [](float* in, float* out) { may_::constant_bound<<<kBlocks + 3, kThreads>>>(in, out); });
  expect_each(result, [](float* in, float* out) { may_::constant_loop<<<kCount / 64 / 64, 64>>>(in, out); });
  expect_each(result, [](float* in, float* out) { may_::four_each<<<kBlocks / 4, kThreads>>>(in, out, kCount / 4); });
}
// Small buffers lie side by side: each begins where another one ends, and is any of those that are given.
void side_by_side(Result* result) {
  constexpr int kFew = kCount / 2;  // half as large as what has pages of its own
  const Memory small[4] = {Memory(kFew * 4), Memory(kFew * 4), Memory(kFew * 4), Memory(kFew * 4)};
  constexpr int kTiny = kCount / 64;
  const Memory tiny[4] = {Memory(kTiny * 4), Memory(kTiny * 4), Memory(kTiny * 4), Memory(kTiny * 4)};
  for (int written = 0; written < 3; ++written) {
    const Memory &to = small[written], &a = small[(written + 1) % 3], &b = small[(written + 2) % 3];
    const auto uploads = [&] {
      for (int i = 0; i < 3; ++i) upload(small[i], 60 + i, kFew);
    };
    expect_each(result, [&](float*, float* out) {
      uploads();
      may_::small_sum<<<kBlocks / 2, kThreads>>>(a.at, b.at, to.at, out, kFew);
      result->add(to.at, kFew);
    });
    // The input is overwritten.
    expect_each(result, [&](float* in, float*) {
      uploads();
      may_::repeated<<<kBlocks, kThreads>>>(to.at + kFew, in, kCount, kFew);
      upload(to, 63, kFew);
      result->add(in);
    });
    // The same of what is so small that it may be copied aside before.
    expect_each(result, [&](float* in, float*) {
      for (int i = 0; i < 3; ++i) upload(tiny[i], 70 + i, kTiny);
      may_::repeated<<<kBlocks, kThreads>>>(tiny[written].at + kTiny, in, kCount, kTiny);
      upload(tiny[written], 73, kTiny);
      upload(tiny[(written + 1) % 3], 74, kTiny);
      result->add(in);
    });
    expect_each(result, [&](float*, float* out) {
      uploads();
      must_not_::from_behind<<<kBlocks / 2, kThreads>>>(to.at + kFew, to.at, out, kFew);
      must_not_::from_behind<<<kBlocks / 2, kThreads>>>(to.at + kFew, to.at, out, kFew);
      result->add(to.at, kFew);
    });
  }
}
void below_the_end(Result* result) {
  constexpr int kFew = 1024;
  const Memory small[4] = {Memory(kFew * 4), Memory(kFew * 4), Memory(kFew * 4), Memory(kFew * 4)};
  for (int i = 0; i < 3; ++i) {
    expect_each(result, [&](float*, float* out) {
      upload(small[i], 64 + i, kFew);
      may_::before_the_end<<<kBlocks, kThreads>>>(small[i].at + kFew, kFew, out, kCount);
      upload(small[i], 67 + i, kFew);
    });
  }
}
// An unused parameter may be any address: another buffer, the middle of one, memory of others, or the output.
void spares(Result* result) {
  const Memory other;
  float* host = nullptr;
  require(cudaMallocHost(&host, 4096));
  expect_each(result, [&](float* in, float* out) {
    for (float* unused : {other.at, other.at + 5, host, out})
      may_::spare<<<kBlocks, kThreads>>>(in, unused, out, unused, kCount);
  });
  require(cudaFreeHost(host));
}
void ways(Result* result) {
  for (const int first : {kCount / 3, -1, kCount + 7}) {
    const int blocks = first < kCount ? kBlocks + 3 : kBlocks;
    expect_each(result, [&](float* in, float* out) {
      may_::either_way<<<blocks, kThreads>>>(in, out, first, kCount);
      may_::either_way<<<kBlocks / 2, kThreads>>>(out, in, first, kCount);
    });
  }
  using namespace must_not_;
  const int first = kCount / 3;
  expect_each(result, [&](float* in, float* out) { either_output<<<kBlocks, kThreads>>>(out, in, first, kCount); });
  expect_each(result, [&](float*, float* out) { either_output<<<kBlocks, kThreads>>>(out, out, first, kCount); });
  expect_each(result, [&](float*, float* out) { either_width<<<kBlocks, kThreads>>>(out, first, kCount); });
  expect_each(result, [&](float* in, float* out) { either_or_neither<<<kBlocks, kThreads>>>(in, out, first, kCount); });
}
void backwards(Result* result) {
  expect_each(result, [](float* in, float* out) { may_::from_the_end<<<kBlocks + 3, kThreads>>>(in, out, kCount); });
  expect_each(result,
              [](float* in, float* out) { may_::from_the_end_in_loops<<<kBlocks / 8, kThreads>>>(in, out, kCount); });
  expect_each(result, [](float* in, float* out) { may_::mirrored<<<kMoreThanAll, kTile>>>(in, out, kW, kH); });
  using namespace must_not_;
  expect_each(result, [](float*, float* out) { from_the_end_in_part<<<kBlocks, kThreads>>>(out, kCount - 5, kCount); });
  expect_each(result, [](float*, float* out) { from_the_end_of_few<<<kBlocks / 2, kThreads>>>(out, kCount); });
  expect_each(result, [](float*, float* out) { mirrored_columns<<<kGrid, kTile>>>(out, kW, kW - 5, kH); });
  expect_each(result, [](float*, float* out) { mirrored_columns<<<kGrid, kTile>>>(out, kW / 2, kW, kH); });
  expect_each(result, [](float*, float* out) { there_and_back<<<kBlocks, kThreads>>>(out, kCount); });
}
void pointers(Result* result) {
  const Memory second;
  upload(second, 3);
  expect_each(result, [&](float* in, float* out) {
    may_::three_inputs<<<kBlocks, kThreads>>>({{in, second.at, second.at}, out, kCount});
  });
  for (const float* const bias : {static_cast<const float*>(nullptr), static_cast<const float*>(second.at)}) {
    expect_each(result, [&](float* in, float* out) {
      may_::with_bias<<<kBlocks, kThreads>>>(in, bias, second.at, out, kCount);
      may_::with_bias<<<kBlocks, kThreads>>>(in, nullptr, bias, out, kCount);
    });
  }
  // Where a pointer is makes a difference.
  expect_each(result,
              [&](float* in, float* out) { must_not_::in_order<<<kBlocks, kThreads>>>(in, second.at, out, kCount); });
  std::vector<long long> order(kH);
  for (int i = 0; i < kH; ++i) order[static_cast<std::size_t>(i)] = (i * 7) % kH;
  const Memory indices(kH * sizeof(long long));
  require(cudaMemcpy(indices.at, order.data(), kH * sizeof(long long), cudaMemcpyHostToDevice));
  expect_each(result, [&](float* in, float* out) {
    may_::gather<<<dim3(kW / 128, kH), 128>>>(reinterpret_cast<const long long*>(indices.at), in, out, kW);
  });
}
void small_floats(Result* result) {
  expect_each(result, [](float* in, float* out) {
    may_::halves<<<2 * kBlocks, kThreads>>>(reinterpret_cast<const __half*>(in), reinterpret_cast<__half*>(out),
                                            2 * kCount);
  });
  expect_each(result, [](float* in, float* out) {
    may_::half_pairs<<<kBlocks, kThreads>>>(reinterpret_cast<const __half2*>(in), reinterpret_cast<__half2*>(out),
                                            kCount);
  });
  expect_each(result, [](float* in, float* out) {
    may_::bfloats<<<dim3(2 * kW / 32, kH / 8), kTile>>>(reinterpret_cast<const __nv_bfloat16*>(in),
                                                        reinterpret_cast<__nv_bfloat16*>(out), 2 * kW, kH);
  });
}

void bounds(Result* result) {
  using namespace must_not_;
  // Columns are left out; then rows run into the next.
  expect_each(result, [](float*, float* out) { other_bound<<<kGrid, kTile>>>(out, kW, kW - 5, kH); });
  expect_each(result, [](float*, float* out) { other_bound<<<kGrid, kTile>>>(out, kW / 2, kW, kH); });
  expect_each(result, [](float*, float* out) { triangle<<<kGrid, kTile>>>(out, kW, kH); });
  expect_each(result, [](float*, float* out) { from_a_column<<<kGrid, kTile>>>(out, kW, kH, 3); });
  expect_each(result,
              [](float*, float* out) { stores_beyond<<<dim3(kW / 32 + 1, kH / 16), kTile>>>(out, kW, kH / 2 - 8); });
  expect_each(result, [](float*, float* out) { unguarded<<<dim3(kW / 32 - 1, kH / 8), kTile>>>(out, kW); });
}
void dimensions(Result* result) {
  using namespace must_not_;
  expect_each(result, [](float*, float* out) { wrong_block<<<kGrid, kTile>>>(out, kW, kH); });
  expect_each(result, [](float*, float* out) { wrong_block<<<dim3(kW / 8, kH / 32), dim3(8, 32)>>>(out, kW, kH); });
  expect_each(result, [](float*, float* out) { by_columns<<<dim3(16, 64), kTile>>>(out, 512, 256); });
  expect_each(result, [](float*, float* out) { one_dimension<<<dim3(kBlocks, 2), kThreads>>>(out, kCount); });
  expect_each(result, [](float*, float* out) { padded_batch<<<dim3(kW / 32, 8, 4), kTile>>>(out, kW, 64, 65 * kW); });
  expect_each(result, [](float*, float* out) { padded_batch<<<dim3(kW / 32, 8, 4), kTile>>>(out, kW, 64, 63 * kW); });
}
void numbers(Result* result) {
  using namespace must_not_;
  const Memory stride(256);
  const int width = kW;
  require(cudaMemcpy(stride.at, &width, sizeof width, cudaMemcpyHostToDevice));
  expect_each(result, [&](float*, float* out) {
    stride_in_memory<<<kGrid, kTile>>>(reinterpret_cast<const int*>(stride.at), out, kW, kH);
  });
  expect_each(result, [](float*, float* out) { wraps<<<kGrid, kTile>>>(out, 1 << 30, kW, kH); });
  expect_each(result, [](float*, float* out) { two_strides<<<kBlocks, kThreads>>>(out, kCount); });
  expect_each(result, [](float* in, float* out) { picks<<<kBlocks, kThreads>>>({{in, in, in}, out, kCount}, 3); });
}
void loops(Result* result) {
  using namespace must_not_;
  expect_each(result, [](float*, float* out) { other_step<<<kH, 64>>>(out, kW, 128); });
  expect_each(result, [](float*, float* out) { other_step<<<kH, 64>>>(out, kW, 32); });
  expect_each(result, [](float* in, float* out) { ends_early<<<kH, 64>>>(in, out, kW); });
  expect_each(result, [](float*, float* out) { goes_on<<<kH, 64>>>(out, kW, 3); });
  expect_each(result, [](float*, float* out) { right_neighbour<<<1, 1>>>(out, kW, kH); });
  expect_each(result, [](float*, float* out) { upper_half<<<kBlocks, kThreads>>>(out, kCount); });
  expect_each(result, [](float*, float* out) { late_place<<<kH, 64>>>(out, kW); });
}
// Nothing is written.
void negative(Result* result) {
  for (const int width : {-1, 0, -kW}) {
    expect_each(result, [&](float* in, float* out) {
      may_::blur<<<kGrid, kTile>>>(in, out, width, kH);
      may_::transpose<<<kGrid, kTile>>>(in, out, kW, width);
    });
  }
}

const std::vector<Trap> kAll = {{"products", products},
                                {"images", images},
                                {"rows", rows},
                                {"volumes", volumes},
                                {"constants", constants},
                                {"side_by_side", side_by_side},
                                {"below_the_end", below_the_end},
                                {"spares", spares},
                                {"ways", ways},
                                {"backwards", backwards},
                                {"pointers", pointers},
                                {"halves", small_floats},
                                {"bounds", bounds},
                                {"dimensions", dimensions},
                                {"numbers", numbers},
                                {"loops", loops},
                                {"negative", negative}};

}  // namespace
}  // namespace traps

int main(int argc, char** argv) { return traps::run(traps::kAll, argc, argv); }
