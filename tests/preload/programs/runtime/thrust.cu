// SPDX-License-Identifier: Apache-2.0
// Thrust: kernels whose parameters are structures, most of them with padding or empty, on a stack whose contents differ
// in every run. More vectors than a small budget holds.
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

constexpr int kVectors = 8;
constexpr std::size_t kElements = std::size_t{1} << 20;

struct Affine {
  double factor;
  int offset;
  char shift;  // followed by three bytes of padding
  __host__ __device__ int operator()(int x) const { return static_cast<int>(x * factor) + offset + shift; }
};

struct Nested {
  std::int16_t first;
  Affine second;
  bool third;
};

__global__ void take(int* to, Nested nested, std::size_t count) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < count) to[i] += nested.third ? nested.second(nested.first) : nested.first;
}

// Sets what will be in the padding: the address of a heap block, which differs in every run.
__attribute__((noinline)) Nested nested(int i) {
  Nested made;
  const auto block = std::make_unique<int>(i);
  auto* const words = reinterpret_cast<const void* volatile*>(&made);
  for (std::size_t k = 0; k < sizeof made / sizeof *words; ++k) words[k] = block.get();
  made.first = static_cast<std::int16_t>(i);
  made.second.factor = 0.5;
  made.second.offset = i;
  made.second.shift = 1;
  made.third = true;
  return made;
}

unsigned digest(const thrust::device_vector<int>& of) {
  std::vector<int> host(of.size());
  thrust::copy(of.begin(), of.end(), host.begin());
  unsigned sum = 0;
  for (const int x : host) sum = sum * 31 + static_cast<unsigned>(x);
  return sum;
}

int main() {
  std::vector<thrust::device_vector<int>> vectors;
  for (int i = 0; i < kVectors; ++i) {
    vectors.emplace_back(kElements);
    thrust::sequence(vectors.back().begin(), vectors.back().end(), i, 3);
  }
  for (int i = 0; i < kVectors; ++i) {
    auto& from = vectors[i];
    auto& to = vectors[(i + 3) % kVectors];
    thrust::transform(from.begin(), from.end(), to.begin(), Affine{1.5, i, 2});
    take<<<4096, 256>>>(thrust::raw_pointer_cast(to.data()), nested(i), kElements);
    std::printf("%d\n", thrust::reduce(to.begin(), to.end(), 0, thrust::plus<int>()));
    thrust::inclusive_scan(to.begin(), to.end(), from.begin());
    std::printf("%lld\n",
                thrust::transform_reduce(from.begin(), from.end(), Affine{2, 1, 1}, 0ll, thrust::plus<long long>()));
  }
  thrust::sort(vectors[0].begin(), vectors[0].end());
  for (const auto& vector : vectors) std::printf("%08x\n", digest(vector));
  return 0;
}
