// SPDX-License-Identifier: Apache-2.0
// Shared by the traps of recompute_traps.cu and recompute_traps_of_order.cu: memory, kernels, and harmless companions.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "examples/common/digest.h"

namespace traps {

constexpr int kCount = 1 << 19;  // 2 MiB of floats: a block of its own
constexpr std::size_t kBytes = kCount * sizeof(float);
constexpr int kThreads = 256, kBlocks = kCount / kThreads;

inline void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::printf("%s\n", cudaGetErrorName(error));
  std::exit(1);
}

__device__ inline int own() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

template <int trap>
__global__ void control(const float* in, float* out, int count) {
  const int i = own();
  if (i < count) out[i] = in[i] * 1.5f + trap;
}
// Harmless as well.
template <int trap>
__global__ void twice(const float* in, float* out, int count) {
  const int i = own();
  if (i < count) out[i] = in[i] * 2.0f + 1.0f;
}

struct Memory {
  float* at = nullptr;

  explicit Memory(std::size_t bytes = kBytes) { require(cudaMalloc(&at, bytes)); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { release(); }
  void release() {
    if (at != nullptr) require(cudaFree(at));
    at = nullptr;
  }
};

inline std::vector<float> pattern(int seed, int count = kCount) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>((i * 7 + seed * 13) % 1009);
  return values;
}
inline void upload(const Memory& to, int seed, int count = kCount) {
  const std::vector<float> values = pattern(seed, count);
  require(cudaMemcpy(to.at, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
}
inline std::vector<float> download(const float* from, int count = kCount) {
  std::vector<float> values(static_cast<std::size_t>(count));
  require(cudaMemcpy(values.data(), from, values.size() * sizeof(float), cudaMemcpyDeviceToHost));
  return values;
}

struct Result {
  examples::Digest digest;
  int wrong = 0;

  void add(const std::vector<float>& values) { digest.add(values.data(), values.size() * sizeof(float)); }
  void add(const float* from, int count = kCount) { add(download(from, count)); }
  void expect(bool is_right) { wrong += !is_right; }
  void expect_equal(const std::vector<float>& one, const std::vector<float>& other) {
    for (std::size_t i = 0; i < one.size(); ++i) expect(std::memcmp(&one[i], &other[i], sizeof(float)) == 0);
  }
};

// Made where the trap begins, read where it ends.
template <int trap>
struct Beside {
  Memory in, out;
  Result* result;

  explicit Beside(Result* to) : result(to) {
    upload(in, trap);
    control<trap><<<kBlocks, kThreads>>>(in.at, out.at, kCount);
  }
  ~Beside() { result->add(out.at); }
};

template <int trap>
__global__ void add(const float* a, const float* b, float* out, int count) {
  const int i = own();
  if (i < count) out[i] = a[i] + b[i];
}
template <int trap>
__global__ void count_launches(float* counts, float* out, int count) {
  const int i = own();
  if (i >= count) return;
  counts[i] += 1.0f;
  out[i] = counts[i];
}
template <int trap>
__global__ void every_other(float* out, int count) {
  const int i = own();
  if (2 * i < count) out[2 * i] = static_cast<float>(i);
}
template <int trap>
__global__ void strided(const float* in, float* out, int count) {
#pragma unroll 1
  for (int i = own(); i < count; i += static_cast<int>(gridDim.x * blockDim.x)) out[i] = in[i] - 1.0f;
}

struct Trap {
  const char* name;
  void (*run)(Result*);
};
extern const std::vector<Trap> kTrapsOfOrder;

// Runs the traps that are named, or all.
inline int run(const std::vector<Trap>& all, int argc, char** argv) {
  for (const Trap& trap : all) {
    bool is_asked_for = argc == 1;
    for (int i = 1; i < argc; ++i) is_asked_for |= std::strcmp(argv[i], trap.name) == 0;
    if (!is_asked_for) continue;
    Result result;
    trap.run(&result);
    require(cudaGetLastError());
    std::printf("%s %016llx %d\n", trap.name, static_cast<unsigned long long>(result.digest.value()), result.wrong);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace traps
