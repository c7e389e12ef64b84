// SPDX-License-Identifier: Apache-2.0
// Operations in two streams that nothing orders, on bytes next to each other or on the same ones; the argument says
// which. For the race checker.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kBytes = 6 << 20;
constexpr int kHalf = kBytes / 2 + 1000;  // in the middle of a page
constexpr int kThreads = 256;

void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::printf("%s\n", cudaGetErrorName(error));
  std::exit(1);
}

__global__ void fill(char* a, int begin, int end, char value) {
  const int i = begin + blockIdx.x * blockDim.x + threadIdx.x;
  if (i < end) a[i] = value;
}

__global__ void copy(const char* from, char* to, int begin, int end) {
  const int i = begin + blockIdx.x * blockDim.x + threadIdx.x;
  if (i < end) to[i] = from[i];
}

__global__ void every_other(char* a, int first) {
  const int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + first;
  if (i < kBytes) a[i] = 1;
}

__global__ void count(unsigned* a) { atomicAdd(a, 1u); }
__device__ unsigned total;
__global__ void count_total() { atomicAdd(&total, 1u); }
__global__ void set_total() { total = 5; }
__constant__ char constants[2];
__global__ void read_constant(char* to) { to[threadIdx.x] = constants[0]; }

// The block that is last by the count reads what all blocks have written.
__global__ void last_sums_up(char* parts, unsigned* done, int mine) {
  parts[mine] = 1;
  __threadfence();
  if (atomicAdd(done, 1u) == 1) parts[2] = static_cast<char>(parts[0] + parts[1]);
}

__global__ void allocate(int value) {
  int* const p = static_cast<int*>(malloc(64));
  *p = value;
  free(p);
}

__global__ void draw(cudaSurfaceObject_t surface, int row) { surf2Dwrite(1.0f, surface, threadIdx.x * 4, row); }

int blocks(int bytes) { return (bytes + kThreads - 1) / kThreads; }

char* buffer() {
  char* a = nullptr;
  require(cudaMalloc(&a, kBytes));
  return a;
}

struct Streams {
  cudaStream_t a, b;
};

void fills(const Streams& in, char* a, int second) {
  fill<<<blocks(kHalf), kThreads, 0, in.a>>>(a, 0, kHalf, 1);
  fill<<<blocks(kBytes - second), kThreads, 0, in.b>>>(a, second, kBytes, 2);
}

// Six buffers, of which four fit. What was written is fetched again.
void under_pressure(const Streams& in) {
  char* all[6];
  for (char*& a : all) {
    a = buffer();
    fills(in, a, kHalf);
  }
  require(cudaDeviceSynchronize());
  for (int round = 0; round < 3; ++round) {
    for (int k = 0; k < 6; k += 2) {
      copy<<<blocks(1000), kThreads, 0, in.a>>>(all[k], all[k + 1], 0, 1000);
      copy<<<blocks(1000), kThreads, 0, in.b>>>(all[k], all[k + 1], 1000, 2000);
    }
    require(cudaDeviceSynchronize());
  }
}

// The rows 0 to 3 of an array, and the others.
void draw_and_copy(const Streams& in, bool beside) {
  constexpr int kWidth = 32, kRows = 8;
  static float from[kWidth * kRows];
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array = nullptr;
  require(cudaMallocArray(&array, &format, kWidth, kRows, cudaArraySurfaceLoadStore));
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t surface = 0;
  require(cudaCreateSurfaceObject(&surface, &resource));
  void* pinned = nullptr;
  require(cudaMallocHost(&pinned, sizeof from));
  std::memcpy(pinned, from, sizeof from);
  require(cudaDeviceSynchronize());
  draw<<<1, kWidth, 0, in.a>>>(surface, beside ? 6 : 3);
  require(cudaMemcpy2DToArrayAsync(array, 0, 0, pinned, kWidth * 4, kWidth * 4, 4, cudaMemcpyHostToDevice, in.b));
}

}  // namespace

int main(int, char** arguments) {
  const auto is = [&](const char* name) { return std::strcmp(arguments[1], name) == 0; };
  Streams in{};
  require(cudaStreamCreateWithFlags(&in.a, cudaStreamNonBlocking));
  require(cudaStreamCreateWithFlags(&in.b, cudaStreamNonBlocking));
  char* const a = buffer();
  char* const other = buffer();
  void* host = nullptr;
  require(cudaMallocHost(&host, kBytes));
  require(cudaDeviceSynchronize());
  if (is("halves")) fills(in, a, kHalf);
  if (is("overlap")) fills(in, a, kHalf - 1);
  if (is("reads")) {
    copy<<<blocks(kHalf), kThreads, 0, in.a>>>(a, other, 0, kHalf);
    fill<<<blocks(kHalf), kThreads, 0, in.b>>>(a, kHalf, kBytes, 1);
  }
  if (is("read_overlap")) {
    copy<<<blocks(kHalf), kThreads, 0, in.a>>>(a, other, 0, kHalf + 1);
    fill<<<blocks(kHalf), kThreads, 0, in.b>>>(a, kHalf, kBytes, 1);
  }
  if (is("download") || is("download_overlap")) {
    fill<<<blocks(kHalf), kThreads, 0, in.a>>>(a, 0, kHalf, 1);
    const int from = is("download") ? kHalf : kHalf - 1;
    require(cudaMemcpyAsync(host, a + from, kBytes - from, cudaMemcpyDeviceToHost, in.b));
  }
  if (is("pinned") || is("pinned_overlap")) {
    char* const to = static_cast<char*>(host);
    copy<<<blocks(kHalf), kThreads, 0, in.a>>>(a, to, 0, is("pinned") ? kHalf : kHalf + 1);
    require(cudaMemcpyAsync(to + kHalf, other, kBytes - kHalf, cudaMemcpyDeviceToHost, in.b));
  }
  if (is("others")) {
    every_other<<<blocks(kBytes / 2), kThreads, 0, in.a>>>(a, 0);
    every_other<<<blocks(kBytes / 2), kThreads, 0, in.b>>>(a, 1);
  }
  if (is("atomics") || is("atomics_read")) {
    count<<<2, 32, 0, in.a>>>(reinterpret_cast<unsigned*>(a));
    count<<<2, 32, 0, in.b>>>(reinterpret_cast<unsigned*>(a));
    if (is("atomics_read")) require(cudaMemcpyAsync(host, a, 4, cudaMemcpyDeviceToHost, in.b));
  }
  if (is("variable") || is("variable_written")) {
    count_total<<<2, 32, 0, in.a>>>();
    if (is("variable")) count_total<<<2, 32, 0, in.b>>>();
    if (is("variable_written")) set_total<<<1, 1, 0, in.b>>>();
  }
  if (is("constant") || is("constant_written")) {
    read_constant<<<1, 32, 0, in.a>>>(a);
    require(cudaMemcpyToSymbolAsync(constants, host, 1, is("constant") ? 1 : 0, cudaMemcpyHostToDevice, in.b));
  }
  if (is("last_sums_up")) {
    last_sums_up<<<1, 1, 0, in.a>>>(a, reinterpret_cast<unsigned*>(a + 1024), 0);
    last_sums_up<<<1, 1, 0, in.b>>>(a, reinterpret_cast<unsigned*>(a + 1024), 1);
  }
  if (is("heap")) {
    allocate<<<1, 1, 0, in.a>>>(1);
    allocate<<<1, 1, 0, in.b>>>(2);
  }
  if (is("surface") || is("surface_written")) draw_and_copy(in, is("surface"));
  if (is("pressure")) under_pressure(in);
  require(cudaDeviceSynchronize());
  return 0;
}
