// SPDX-License-Identifier: Apache-2.0
// Kernels that store addresses of buffers where other kernels find them. The argument says how; the program checks the
// results. With same_name.cu, which has a kernel of the same name.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/simulated_cudart/stored_addresses.h"

// A kernel with the same name as one that stores no addresses.
static __global__ void set(float** table, float* v) { table[0] = v; }

namespace {

void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::printf("%s\n", cudaGetErrorName(error));
  std::exit(1);
}

constexpr int kBuffers = 8, kElements = 1 << 19;  // of 2 MiB
constexpr int kBlocks = 32, kThreads = 128;

#pragma pack(push, 4)
struct Packed {
  int count;
  float* values;
};
#pragma pack(pop)

__device__ float* item;

__global__ void fill(float* v, int n, float value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v[i] = value;
}
__global__ void store_item(float** table, int row) { table[row] = item; }
__global__ void store_packed(Packed* packed, int count, float* v) { *packed = {count, v}; }
__global__ void add_to_row(float** table, int row, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) table[row][i] += 1;
}
__global__ void add_to_packed(const Packed* packed) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < packed->count; i += gridDim.x * blockDim.x)
    packed->values[i] += 1;
}
template <typename T>
T* buffer(int count) {
  T* at = nullptr;
  require(cudaMalloc(&at, sizeof(T) * count));
  return at;
}

}  // namespace

int main(int, char** arguments) {
  const auto is = [&](const char* name) { return std::strcmp(arguments[1], name) == 0; };
  float* buffers[kBuffers];
  for (float*& one : buffers) one = buffer<float>(kElements);
  float** tables[kBuffers];
  for (float**& table : tables) table = buffer<float*>(64);
  auto* const packed = buffer<Packed>(1);
  if (is("same_name")) launch_the_other(buffers[0], 9);
  for (int i = 0; i < kBuffers; ++i) {
    fill<<<kBlocks, kThreads>>>(buffers[i], kElements, 100.0f * i);
    if (is("global")) {
      require(cudaMemcpyToSymbol(item, &buffers[i], sizeof item));
      store_item<<<1, 1>>>(tables[i], 0);
    } else if (is("same_name")) {
      set<<<1, 1>>>(tables[i], buffers[i]);
    } else if (is("packed")) {
      store_packed<<<1, 1>>>(packed, kElements, buffers[i]);
      // All others come in between, so that it is not on the device any more.
      for (int other = 0; other < kBuffers; ++other) {
        if (other != i) fill<<<kBlocks, kThreads>>>(buffers[other], kElements, 100.0f * other + (other < i));
      }
      add_to_packed<<<kBlocks, kThreads>>>(packed);
    }
  }
  if (!is("packed")) {
    for (int i = 0; i < kBuffers; ++i) add_to_row<<<kBlocks, kThreads>>>(tables[i], 0, kElements);
  }
  require(cudaGetLastError());
  require(cudaDeviceSynchronize());
  int wrong = 0;
  std::vector<float> host(kElements);
  for (int b = 0; b < kBuffers; ++b) {
    require(cudaMemcpy(host.data(), buffers[b], kElements * sizeof(float), cudaMemcpyDeviceToHost));
    for (const float value : host) wrong += value != 100.0f * b + 1;
  }
  std::printf("wrong %d\n", wrong);
  return wrong == 0 ? 0 : 2;
}
