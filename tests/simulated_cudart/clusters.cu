// SPDX-License-Identifier: Apache-2.0
// Clusters as programs use them: cooperative groups, shapes that a kernel names and shapes that a launch names.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdio>

namespace cg = cooperative_groups;

namespace {

constexpr int kThreads = 32;

__device__ void exchange(int* out) {
  __shared__ int own[kThreads];
  const cg::cluster_group cluster = cg::this_cluster();
  const int i = static_cast<int>(threadIdx.x), rank = static_cast<int>(cluster.block_rank());
  own[i] = 100 * rank + i;
  cluster.sync();
  const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  const int found = *cluster.map_shared_rank(&own[i], next);
  cluster.sync();
  out[(blockIdx.y * gridDim.x + blockIdx.x) * kThreads + i] = found + 10000 * static_cast<int>(cluster.num_blocks());
}

}  // namespace

__global__ void __cluster_dims__(2, 1, 1) in_pairs(int* out) { exchange(out); }
__global__ void in_any(int* out) { exchange(out); }

namespace {

cudaError_t launch(void (*kernel)(int*), dim3 grid, dim3 cluster, int* out) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = cluster.x;
  attribute.val.clusterDim.y = cluster.y;
  attribute.val.clusterDim.z = cluster.z;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = kThreads;
  config.attrs = &attribute;
  config.numAttrs = cluster.x == 0 ? 0 : 1;
  const cudaError_t result = cudaLaunchKernelEx(&config, kernel, out);
  cudaGetLastError();
  return result;
}

// In blocks of the grid: the rank in the cluster, and how many it has.
int wrong_of(const int* out, dim3 grid, dim3 cluster) {
  const int size = static_cast<int>(cluster.x * cluster.y);
  int wrong = 0;
  for (unsigned y = 0; y < grid.y; ++y) {
    for (unsigned x = 0; x < grid.x; ++x) {
      const int rank = static_cast<int>(x % cluster.x + cluster.x * (y % cluster.y));
      for (int i = 0; i < kThreads; ++i)
        wrong += out[(y * grid.x + x) * kThreads + i] != 10000 * size + 100 * ((rank + 1) % size) + i;
    }
  }
  return wrong;
}

int run(void (*kernel)(int*), dim3 grid, dim3 named, dim3 expected, int* out) {
  if (launch(kernel, grid, named, out) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) return 1000;
  return wrong_of(out, grid, expected);
}

}  // namespace

int main() {
  int* out = nullptr;
  if (cudaMallocManaged(&out, 64 * kThreads * sizeof(int)) != cudaSuccess) return 1;
  int wrong = run(in_pairs, dim3(6), dim3(0), dim3(2), out);
  wrong += run(in_pairs, dim3(6), dim3(2), dim3(2), out);
  wrong += run(in_any, dim3(5), dim3(0), dim3(1), out);
  wrong += run(in_any, dim3(8, 4), dim3(4, 2), dim3(4, 2), out);
  wrong += launch(in_pairs, dim3(5), dim3(0), out) != cudaErrorInvalidClusterSize;
  wrong += launch(in_pairs, dim3(4), dim3(4), out) != cudaErrorInvalidClusterSize;
  wrong += launch(in_any, dim3(32), dim3(32), out) != cudaErrorInvalidClusterSize;
  wrong += launch(in_any, dim3(6), dim3(4), out) != cudaErrorInvalidClusterSize;
  std::printf("wrong %d\n", wrong);
  return 0;
}
