// SPDX-License-Identifier: Apache-2.0
// Kernels without a host implementation. The program checks each of them; the argument says which.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <vector>

namespace {

void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::printf("%s\n", cudaGetErrorName(error));
  std::exit(1);
}

constexpr int kBuffers = 6;
constexpr int kElements = 2 << 20;  // 8 MiB each
constexpr int kThreads = 256;

// A buffer of `count` elements.
template <typename T>
T* buffer(int count = kElements) {
  T* at = nullptr;
  require(cudaMalloc(&at, sizeof(T) * count));
  return at;
}

template <typename T>
std::vector<T> read_back(const T* from, int count) {
  std::vector<T> host(count);
  require(cudaMemcpy(host.data(), from, sizeof(T) * count, cudaMemcpyDeviceToHost));
  return host;
}

__global__ void first_values(float* a, int n, int k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] = static_cast<float>(i % 1000 + k);
}

__global__ void affine(float* a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] = 2 * a[i] + 1;
}

// Through shared memory and a barrier at each level, then through lanes.
__global__ void sums(const float* a, float* of_blocks) {
  __shared__ float shared[kThreads];
  shared[threadIdx.x] = a[blockIdx.x * kThreads + threadIdx.x];
  __syncthreads();
  for (int half = kThreads / 2; half >= 32; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x >= 32) return;
  float sum = shared[threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
  if (threadIdx.x == 0) of_blocks[blockIdx.x] = sum;
}

__global__ void histogram(const float* a, int n, unsigned* bins) {
  extern __shared__ unsigned own[];
  for (int i = threadIdx.x; i < 1000; i += blockDim.x) own[i] = 0;
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&own[static_cast<int>(a[i]) % 1000], 1u);
  __syncthreads();
  for (int bin = threadIdx.x; bin < 1000; bin += blockDim.x) atomicAdd(&bins[bin], own[bin]);
}

__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ int doubled(int n) { return 2 * n; }
using Function = int (*)(int);
__device__ Function functions[2] = {fibonacci, doubled};
__constant__ int addends[4] = {10, 20, 30, 40};

// Calls through a table in device memory, recursion, local arrays, votes, constants.
__global__ void mixture(int* out) {
  const int i = threadIdx.x;
  int digits[8];
  for (int k = 0; k < 8; ++k) digits[k] = i * k;
  const unsigned odd = __ballot_sync(~0u, i & 1);
  out[i] = functions[i & 1](i % 12) + addends[i & 3] + digits[(i * 5) & 7] + __popc(odd);
}

__global__ void beyond(float* a) { a[(1ull << 40) + threadIdx.x] = 1; }
__global__ void misaligned(char* a) { *reinterpret_cast<float*>(a + 1) = 1; }
__global__ void says(int n) {
  if (threadIdx.x < n) printf("thread %d of %s: %.2f\n", threadIdx.x, "many", threadIdx.x * 0.5);
}
__global__ void never_ends(volatile int* a) {
  while (*a == 0) {
  }
}

int run_affine() {
  float* buffers[kBuffers];
  for (int k = 0; k < kBuffers; ++k) {
    buffers[k] = buffer<float>();
    first_values<<<kElements / kThreads, kThreads>>>(buffers[k], kElements, k);
  }
  for (int k = 0; k < kBuffers; ++k) affine<<<kElements / kThreads, kThreads>>>(buffers[k], kElements);
  int wrong = 0;
  for (int k = 0; k < kBuffers; ++k) {
    const std::vector<float> host = read_back(buffers[k], kElements);
    for (int i = 0; i < kElements; ++i) wrong += host[i] != 2.0f * static_cast<float>(i % 1000 + k) + 1;
  }
  return wrong;
}

// How long one kernel takes that reads and writes 8 MiB, by the device's events.
void print_time() {
  float* const a = buffer<float>();
  cudaEvent_t begin, end;
  require(cudaEventCreate(&begin));
  require(cudaEventCreate(&end));
  affine<<<kElements / kThreads, kThreads>>>(a, kElements);  // so that the second waits for no host
  require(cudaEventRecord(begin));
  affine<<<kElements / kThreads, kThreads>>>(a, kElements);
  require(cudaEventRecord(end));
  require(cudaEventSynchronize(end));
  float milliseconds = 0;
  require(cudaEventElapsedTime(&milliseconds, begin, end));
  std::printf("%.1f microseconds\n", 1000 * milliseconds);
}

int run_sums() {
  float* const a = buffer<float>();
  float* const of_blocks = buffer<float>();
  constexpr int kBlocks = 64;
  first_values<<<kElements / kThreads, kThreads>>>(a, kElements, 0);
  sums<<<kBlocks, kThreads>>>(a, of_blocks);
  const std::vector<float> host = read_back(of_blocks, kBlocks);
  int wrong = 0;
  for (int block = 0; block < kBlocks; ++block) {
    float expected = 0;  // integers below 2^24: exact in any order
    for (int i = block * kThreads; i < (block + 1) * kThreads; ++i) expected += static_cast<float>(i % 1000);
    wrong += host[block] != expected;
  }
  return wrong;
}

int run_histogram() {
  float* const a = buffer<float>();
  unsigned* const bins = buffer<unsigned>();
  constexpr int kCount = 100'000;
  require(cudaMemset(bins, 0, 4000));
  first_values<<<kElements / kThreads, kThreads>>>(a, kElements, 0);
  histogram<<<(kCount + 1023) / 1024, 1024, 4000>>>(a, kCount, bins);
  int wrong = 0;
  for (const unsigned bin : read_back(bins, 1000)) wrong += bin != kCount / 1000;
  return wrong;
}

int fibonacci_on_host(int n) { return n < 2 ? n : fibonacci_on_host(n - 1) + fibonacci_on_host(n - 2); }

int run_mixture() {
  int* const out = buffer<int>();
  mixture<<<1, 64>>>(out);
  const std::vector<int> host = read_back(out, 64);
  int wrong = 0;
  for (int i = 0; i < 64; ++i) {
    const int n = i % 12;
    wrong += host[i] != ((i & 1) != 0 ? 2 * n : fibonacci_on_host(n)) + 10 * (i % 4 + 1) + i * ((i * 5) & 7) + 16;
  }
  return wrong;
}

__device__ int counter;
__device__ int limit = 7;

__global__ void count(int** elsewhere) {
  ++counter;
  if (elsewhere != nullptr) **elsewhere = counter + limit;
}

// Contents that a kernel writes where no parameter points are kept: in variables, and through addresses that are stored
// in memory.
int run_unnamed() {
  int wrong = 0;
  int* target = nullptr;  // written only by the kernel
  require(cudaMalloc(&target, sizeof(int)));
  int** table = nullptr;
  require(cudaMalloc(&table, sizeof(int*)));
  require(cudaMemcpy(table, &target, sizeof(int*), cudaMemcpyHostToDevice));
  for (int i = 1; i <= 3; ++i) {
    count<<<1, 1>>>(i == 1 ? table : nullptr);
    int counted = 0;
    require(cudaMemcpyFromSymbol(&counted, counter, sizeof(int)));
    wrong += counted != i;
    wrong += read_back(target, 1)[0] != 8;
  }
  return wrong;
}

__global__ void copy_words(std::uint32_t* out, const std::uint32_t* in, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) out[i] = in[i];
}

__global__ void set_to(std::uint32_t* out, int count, std::uint32_t value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) out[i] = value;
}

__global__ void append(std::uint32_t* sums, const std::uint32_t* in, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    sums[i] = sums[i] * 3 + in[i];
}

// Two streams, each with memory in its own order: what one is given has been the other's never, and its own before.
int run_orders() {
  constexpr int kWords = 600000;
  std::uint32_t expected[2] = {};
  std::uint32_t* sums[2] = {buffer<std::uint32_t>(kWords), buffer<std::uint32_t>(kWords)};
  cudaStream_t streams[2];
  for (int s = 0; s < 2; ++s) {
    require(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));
    require(cudaMemset(sums[s], 0, kWords * sizeof(std::uint32_t)));
  }
  require(cudaDeviceSynchronize());
  struct Given {
    std::uint32_t* at;
    int stream;
    std::uint32_t value;
  };
  std::vector<Given> given;
  const auto use = [&](const Given& one) {
    append<<<16, 128, 0, streams[one.stream]>>>(sums[one.stream], one.at, kWords);
    require(cudaFreeAsync(one.at, streams[one.stream]));
    expected[one.stream] = expected[one.stream] * 3 + one.value;
  };
  for (std::uint32_t turn = 1; turn <= 24; ++turn) {
    Given one{nullptr, turn * turn % 7 < 3 ? 1 : 0, turn};
    require(cudaMallocAsync(reinterpret_cast<void**>(&one.at), kWords * sizeof(std::uint32_t), streams[one.stream]));
    set_to<<<16, 128, 0, streams[one.stream]>>>(one.at, kWords, one.value);
    given.push_back(one);
    if (turn % 3 == 0) continue;
    use(given.front());
    given.erase(given.begin());
  }
  for (const Given& one : given) use(one);
  require(cudaDeviceSynchronize());
  int wrong = 0;
  for (int s = 0; s < 2; ++s) {
    for (const std::uint32_t sum : read_back(sums[s], kWords)) wrong += sum != expected[s];
  }
  return wrong;
}

// More buffers than fit, of which every second is first written by a kernel that is given another one beside it.
int run_uploads() {
  constexpr int kWords = 524288, kBuffers = 4;
  std::uint32_t* from[kBuffers];
  std::uint32_t* to[kBuffers];
  for (int i = 0; i < kBuffers; ++i) {
    from[i] = buffer<std::uint32_t>(kWords);
    to[i] = buffer<std::uint32_t>(kWords);
    const std::vector<std::uint32_t> values(kWords, 100 + static_cast<std::uint32_t>(i));
    require(cudaMemcpy(from[i], values.data(), kWords * sizeof(std::uint32_t), cudaMemcpyHostToDevice));
  }
  for (int i = 0; i < kBuffers; ++i) copy_words<<<32, 128>>>(to[i], from[i], kWords);
  require(cudaDeviceSynchronize());
  int wrong = 0;
  for (int i = 0; i < kBuffers; ++i) {
    for (std::uint32_t* const one : {from[i], to[i]}) {
      for (const std::uint32_t word : read_back(one, kWords)) wrong += word != 100 + static_cast<std::uint32_t>(i);
    }
  }
  return wrong;
}

// Its copy in the constant bank is aligned, not its offset among the parameters.
struct alignas(64) Aligned {
  int values[32];
};
__global__ void copy_aligned(int* out, const __grid_constant__ Aligned first, int add, Aligned second) {
  out[threadIdx.x] = first.values[threadIdx.x] * add + second.values[31 - threadIdx.x];
}

int run_aligned() {
  int* const out = buffer<int>();
  Aligned first, second;
  for (int i = 0; i < 32; ++i) {
    first.values[i] = i * i;
    second.values[i] = 1000 * i;
  }
  copy_aligned<<<1, 32>>>(out, first, 3, second);
  int host[32];
  require(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int i = 0; i < 32; ++i) wrong += host[i] != i * i * 3 + 1000 * (31 - i);
  return wrong;
}

// Variables are initialized again with the device.
int run_reset() {
  int wrong = 0;
  for (int round = 0; round < 3; ++round) {
    int* out = nullptr;
    require(cudaMalloc(&out, sizeof(int)));
    require(cudaMemcpy(out, &round, sizeof(int), cudaMemcpyHostToDevice));
    int values[2] = {};
    require(cudaMemcpyFromSymbol(&values[0], limit, sizeof(int)));
    require(cudaMemcpyFromSymbol(&values[1], counter, sizeof(int)));
    wrong += values[0] != 7 || values[1] != 0;
    const int other = 100 + round;
    require(cudaMemcpyToSymbol(limit, &other, sizeof(int)));
    count<<<1, 1>>>(nullptr);
    require(cudaDeviceReset());
  }
  return wrong;
}

}  // namespace

int main(int, char** arguments) {
  const char* const which = arguments[1];
  const auto is = [&](const char* name) { return std::strcmp(which, name) == 0; };
  int wrong = 0;
  if (is("affine")) wrong = run_affine();
  if (is("time")) print_time();
  if (is("sums")) wrong = run_sums();
  if (is("histogram")) wrong = run_histogram();
  if (is("mixture")) wrong = run_mixture();
  if (is("unnamed")) wrong = run_unnamed();
  if (is("orders")) wrong = run_orders();
  if (is("uploads")) wrong = run_uploads();
  if (is("aligned")) wrong = run_aligned();
  if (is("reset")) wrong = run_reset();
  if (is("beyond")) beyond<<<2, 32>>>(buffer<float>());
  if (is("misaligned")) misaligned<<<1, 1>>>(buffer<char>());
  if (is("says")) says<<<1, 32>>>(3);
  if (is("never_ends")) {
    int* const a = buffer<int>();
    require(cudaMemset(a, 0, 4));
    never_ends<<<1, 2>>>(a);
  }
  require(cudaGetLastError());
  require(cudaDeviceSynchronize());
  std::printf("wrong %d\n", wrong);
  return wrong == 0 ? 0 : 2;
}
