// SPDX-License-Identifier: Apache-2.0
// Kernels compiled by nvcc, checked by the program itself: launches of every form, parameters of odd sizes, overloads,
// templates, device variables. Run as a program by kernels_test; prints one line for each error and exits with status
// 1.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace {

int wrong = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("wrong: %s\n", what);
  ++wrong;
}

void expect_success(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("wrong: %s: %s\n", what, cudaGetErrorString(status));
  ++wrong;
}

}  // namespace

struct __attribute__((packed)) Packed {
  char letter;
  float* out;
  short number;
};

__constant__ float factors[4];
__device__ int counter = 7;
__managed__ int shared_by_both = 5;

__global__ void store(int count, float value, float* out) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = value;
}

__global__ void store(int count, double value, float* out) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = static_cast<float>(value) * 2;
}

template <typename T>
__global__ void fill(T value, T* out) {
  out[threadIdx.x] = value;
}

__global__ void unpack(Packed packed) { packed.out[0] = static_cast<float>(packed.number + packed.letter); }

__global__ void nothing() {}

// Accesses memory that is unknown to host functions.
__global__ void access_globals(float* out) {
  out[0] = factors[0] + static_cast<float>(counter);
  counter = counter + 1;
}

// Overloads and templates are found by their mangled names.
extern "C" void simulated__Z5storeifPf(void** arguments, dim3, dim3) {
  for (int i = 0; i < *static_cast<int*>(arguments[0]); ++i)
    (*static_cast<float**>(arguments[2]))[i] = *static_cast<float*>(arguments[1]);
}

extern "C" void simulated__Z5storeidPf(void** arguments, dim3, dim3) {
  for (int i = 0; i < *static_cast<int*>(arguments[0]); ++i) {
    (*static_cast<float**>(arguments[2]))[i] = static_cast<float>(*static_cast<double*>(arguments[1])) * 2;
  }
}

extern "C" void simulated__Z4fillIiEvT_PS0_(void** arguments, dim3, dim3 block) {
  for (unsigned i = 0; i < block.x; ++i) (*static_cast<int**>(arguments[1]))[i] = *static_cast<int*>(arguments[0]);
}

extern "C" void simulated_unpack(void** arguments, dim3, dim3) {
  Packed packed;
  std::memcpy(&packed, arguments[0], sizeof packed);
  packed.out[0] = static_cast<float>(packed.number + packed.letter);
}

namespace {

constexpr int kCount = 1000;

float* allocate() {
  float* memory = nullptr;
  expect_success(cudaMalloc(&memory, kCount * sizeof(float)), "cudaMalloc");
  return memory;
}

float first_of(const float* memory) {
  float value = -1;
  expect_success(cudaMemcpy(&value, memory, sizeof value, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return value;
}

void check_launches(float* memory) {
  store<<<8, 128>>>(kCount, 3.0f, memory);
  expect(first_of(memory) == 3.0f, "an overload for float");
  store<<<8, 128>>>(kCount, 3.0, memory);
  expect(first_of(memory) == 6.0f, "an overload for double");
  fill<int><<<1, 64>>>(77, reinterpret_cast<int*>(memory));
  int whole = 0;
  expect_success(cudaMemcpy(&whole, memory + 63, sizeof whole, cudaMemcpyDeviceToHost), "cudaMemcpy");
  expect(whole == 77, "a template");
  unpack<<<1, 1>>>(Packed{'a', memory, 1000});
  expect(first_of(memory) == 1097.0f, "a packed parameter");
  nothing<<<1, 1>>>();
  expect_success(cudaGetLastError(), "a kernel without parameters");
}

void check_launch_functions(float* memory) {
  int count = kCount;
  float value = 11;
  void* arguments[] = {&count, &value, &memory};
  const auto* kernel = reinterpret_cast<const void*>(static_cast<void (*)(int, float, float*)>(store));
  expect_success(cudaLaunchKernel(kernel, dim3(8), dim3(128), arguments, 0, nullptr), "cudaLaunchKernel");
  expect(first_of(memory) == 11.0f, "cudaLaunchKernel's result");
  value = 12;
  expect_success(cudaLaunchCooperativeKernel(kernel, dim3(8), dim3(128), arguments, 0, nullptr),
                 "cudaLaunchCooperativeKernel");
  expect(first_of(memory) == 12.0f, "cudaLaunchCooperativeKernel's result");
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(8);
  config.blockDim = dim3(128);
  expect_success(cudaLaunchKernelEx(&config, static_cast<void (*)(int, float, float*)>(store), kCount, 13.0f, memory),
                 "cudaLaunchKernelEx");
  expect(first_of(memory) == 13.0f, "cudaLaunchKernelEx's result");
  store<<<8, 4096>>>(kCount, 3.0f, memory);
  expect(cudaGetLastError() == cudaErrorInvalidConfiguration, "too many threads are an invalid configuration");
}

void check_attributes() {
  cudaFuncAttributes attributes;
  expect_success(cudaFuncGetAttributes(&attributes, fill<int>), "cudaFuncGetAttributes");
  expect(attributes.maxThreadsPerBlock >= 64, "a kernel's threads");
  int blocks = 0;
  expect_success(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill<int>, 128, 0), "occupancy");
  expect(blocks >= 1, "at least one block fits");
  std::size_t offset = 0;
  std::size_t bytes = 0;
  expect_success(cudaFuncGetParamInfo(reinterpret_cast<const void*>(unpack), 0, &offset, &bytes),
                 "cudaFuncGetParamInfo");
  expect(offset == 0 && bytes == sizeof(Packed), "a packed parameter's size");
  expect(cudaFuncGetParamInfo(reinterpret_cast<const void*>(unpack), 1, &offset, &bytes) == cudaErrorInvalidValue,
         "past the last parameter");
  cudaGetLastError();
}

void check_variables(float* memory) {
  const float values[4] = {1, 2, 3, 4};
  expect_success(cudaMemcpyToSymbol(factors, values, sizeof values), "cudaMemcpyToSymbol");
  float back[2] = {};
  expect_success(cudaMemcpyFromSymbol(back, factors, sizeof back, 2 * sizeof(float)), "cudaMemcpyFromSymbol");
  expect(back[0] == 3 && back[1] == 4, "a constant's contents");
  std::size_t bytes = 0;
  expect_success(cudaGetSymbolSize(&bytes, factors), "cudaGetSymbolSize");
  expect(bytes == sizeof values, "a constant's size");
  void* address = nullptr;
  expect_success(cudaGetSymbolAddress(&address, counter), "cudaGetSymbolAddress");
  int count = 0;
  expect_success(cudaMemcpy(&count, address, sizeof count, cudaMemcpyDeviceToHost), "cudaMemcpy");
  expect(count == 7, "a variable's initial value");
  expect(cudaMemcpyToSymbol(factors, values, sizeof values, 4) == cudaErrorInvalidValue, "a copy beyond a variable");
  cudaGetLastError();
  access_globals<<<1, 1>>>(memory);
  expect_success(cudaDeviceSynchronize(), "a kernel without a host function");
}

}  // namespace

int main(int argc, char** argv) {
  float* memory = allocate();
  if (argc == 2 && std::strcmp(argv[1], "managed") == 0) {
    expect(shared_by_both == 5, "a managed variable's initial value");
    shared_by_both = 6;
    expect(shared_by_both == 6, "a managed variable is the host's to write");
  } else {
    check_launches(memory);
    check_launch_functions(memory);
    check_attributes();
    check_variables(memory);
  }
  expect_success(cudaFree(memory), "cudaFree");
  if (wrong == 0) std::printf("all right\n");
  return wrong == 0 ? 0 : 1;
}
