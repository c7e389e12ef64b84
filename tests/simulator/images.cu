// SPDX-License-Identifier: Apache-2.0
// One declaration of each kind, which image_test expects to find in every form of image.
#include <cstddef>

struct __attribute__((packed)) Packed {
  char tag;
  float* values;
};

struct alignas(16) Aligned {
  float4 first;
  float* values;
  char tag;
};

template <int N>
struct Long {
  float* values[N];
};

__constant__ float table[4] = {1, 2, 3, 4};
__device__ int counter = 7;
__device__ float big[100];
__device__ float* pointers[3] = {nullptr, big, big + 5};
__managed__ int managed = 3;

template <typename T>
__global__ void add(T* sum, const T* addend, Packed packed, Aligned aligned, short small, size_t count) {
  sum[0] = addend[0] + packed.values[0] + aligned.values[0] + small + table[count] + *pointers[count];
  big[count] = sum[0];
  managed += counter++;
}
template __global__ void add<float>(float*, const float*, Packed, Aligned, short, size_t);

extern "C" __global__ void __launch_bounds__(256, 2) nothing() {}

extern "C" __global__ void sum_shared(float* values) {
  __shared__ float partial[64];
  partial[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  values[0] = partial[63 - threadIdx.x];
}

extern "C" __global__ void take_long(const __grid_constant__ Long<3000> many, int index) { many.values[index][0] = 1; }
