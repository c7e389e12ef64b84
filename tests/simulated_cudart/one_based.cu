// SPDX-License-Identifier: Apache-2.0
// Arrays whose indices begin at 1, as numerical code translated from Fortran has them: kernels and tables are given the
// address of the element before the first. The argument says how; the program checks the results.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::printf("%s\n", cudaGetErrorName(error));
  std::exit(1);
}

constexpr int kVectors = 6, kPerTable = 2, kTables = kVectors / kPerTable, kRounds = 4;
constexpr int kElements = 900001;  // 3.4 MiB, and no multiple of a page
constexpr int kBlocks = 64, kThreads = 128;

__global__ void fill(float* v, int n, float value) {
  for (int i = 1 + blockIdx.x * blockDim.x + threadIdx.x; i <= n; i += gridDim.x * blockDim.x) v[i] = value;
}
__global__ void add(float* v, int n, float value) {
  for (int i = 1 + blockIdx.x * blockDim.x + threadIdx.x; i <= n; i += gridDim.x * blockDim.x) v[i] += value;
}
__global__ void set_row(float** rows, int row, float* v) { rows[row] = v; }
__global__ void add_to_rows(float** rows, int count, int n, float value) {
  for (int row = 1; row <= count; ++row) {
    for (int i = 1 + blockIdx.x * blockDim.x + threadIdx.x; i <= n; i += gridDim.x * blockDim.x) rows[row][i] += value;
  }
}

struct Program {
  float* vectors[kVectors];
  float** tables[kTables];
  cudaStream_t stream;
};

void add_to_each(Program& p) {
  for (float* const v : p.vectors) add<<<kBlocks, kThreads, 0, p.stream>>>(v - 1, kElements, 1);
}

void add_by_tables(Program& p) {
  for (float** const table : p.tables)
    add_to_rows<<<kBlocks, kThreads, 0, p.stream>>>(table - 1, kPerTable, kElements, 2);
}

void make_tables(Program& p, bool by_kernels) {
  for (int t = 0; t < kTables; ++t) {
    float* rows[kPerTable];
    for (int i = 0; i < kPerTable; ++i) {
      rows[i] = p.vectors[t * kPerTable + i] - 1;
      if (by_kernels) set_row<<<1, 1, 0, p.stream>>>(p.tables[t] - 1, i + 1, rows[i]);
    }
    if (!by_kernels) require(cudaMemcpyAsync(p.tables[t], rows, sizeof rows, cudaMemcpyHostToDevice, p.stream));
  }
}

// Three launches of each vector's, so that a graph does not need more than one of them at a time.
void add_in_graphs(Program& p) {
  std::vector<cudaGraphExec_t> graphs;
  for (float* const v : p.vectors) {
    cudaGraph_t graph;
    require(cudaStreamBeginCapture(p.stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 3; ++i) add<<<kBlocks, kThreads, 0, p.stream>>>(v - 1, kElements, 1);
    require(cudaStreamEndCapture(p.stream, &graph));
    cudaGraphExec_t exec;
    require(cudaGraphInstantiate(&exec, graph, 0));
    require(cudaGraphDestroy(graph));
    graphs.push_back(exec);
  }
  for (int round = 0; round < kRounds; ++round) {
    for (cudaGraphExec_t const graph : graphs) require(cudaGraphLaunch(graph, p.stream));
  }
  require(cudaStreamSynchronize(p.stream));
  for (cudaGraphExec_t const graph : graphs) require(cudaGraphExecDestroy(graph));
}

int count_wrong(const Program& p, float expected) {
  int wrong = 0;
  std::vector<float> host(kElements);
  for (int v = 0; v < kVectors; ++v) {
    require(cudaMemcpy(host.data(), p.vectors[v], kElements * sizeof(float), cudaMemcpyDeviceToHost));
    for (const float value : host) wrong += value != expected + 100 * v;
  }
  return wrong;
}

}  // namespace

int main(int, char** arguments) {
  const auto is = [&](const char* name) { return std::strcmp(arguments[1], name) == 0; };
  Program p;
  require(cudaStreamCreate(&p.stream));
  // The first one is what begins first in memory.
  for (float*& v : p.vectors) require(cudaMalloc(&v, kElements * sizeof(float)));
  for (float**& table : p.tables) require(cudaMalloc(&table, kPerTable * sizeof(float*)));
  for (int v = 0; v < kVectors; ++v) fill<<<kBlocks, kThreads, 0, p.stream>>>(p.vectors[v] - 1, kElements, 100.0f * v);
  float expected = 0;
  if (is("parameters")) {
    for (int round = 0; round < kRounds; ++round) add_to_each(p);
    expected = kRounds;
  } else if (is("graphs")) {
    add_in_graphs(p);
    expected = 3 * kRounds;
  } else {
    make_tables(p, is("written"));
    for (int round = 0; round < kRounds; ++round) {
      add_to_each(p);
      add_by_tables(p);
    }
    expected = 3 * kRounds;
  }
  require(cudaGetLastError());
  require(cudaStreamSynchronize(p.stream));
  const int wrong = count_wrong(p, expected);
  std::printf("wrong %d\n", wrong);
  return wrong == 0 ? 0 : 2;
}
