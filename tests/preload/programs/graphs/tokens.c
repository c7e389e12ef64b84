// SPDX-License-Identifier: Apache-2.0
// Tokens of a model, as vLLM and llama.cpp launch them: an executable graph for each batch size, all of which share the
// weights; for each token one of them is given where it writes, node by node or by another recording. The weights are more
// than the tests' budget. With "pool": every step is a graph whose temporary buffers come from a pool that it has alone, as
// with torch.compile(mode="reduce-overhead").
//
// tokens nodes|updates|pool
#include "tests/preload/programs/small.h"

#define SIZES 3
#define TOKENS 6

static CUstream stream;

// A token passes through all weights; `at` is the part of the last buffer that it writes.
static CUgraph record(int size, CUdeviceptr at) {
  CUgraph graph = NULL;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  const size_t bytes = BYTES >> size;
  for (int i = 0; i + 1 < BUFFERS; ++i) launch_mix(mix, stream, buffers[BUFFERS - 1], buffers[i], bytes);
  launch_mix(mix, stream, at, buffers[BUFFERS - 1], BYTES / 8);
  CHECK(cuStreamEndCapture(stream, &graph));
  return graph;
}

// The node that nothing comes behind.
static CUgraphNode last_of(CUgraph graph) {
  CUgraphNode nodes[2 * BUFFERS];
  size_t count = 2 * BUFFERS, behind = 0;
  CHECK(cuGraphGetNodes(graph, nodes, &count));
  for (size_t i = 0; i < count; ++i) {
    CHECK(cuGraphNodeGetDependentNodes(nodes[i], NULL, NULL, &behind));
    if (behind == 0) return nodes[i];
  }
  exit(3);
}

static void set_end(CUgraphExec exec, CUgraphNode node, CUdeviceptr at) {
  CUDA_KERNEL_NODE_PARAMS params;
  CHECK(cuGraphKernelNodeGetParams(node, &params));
  CUdeviceptr in = buffers[BUFFERS - 1];
  void* parameters[] = {&at, &in};
  params.kernelParams = parameters;
  CHECK(cuGraphExecKernelNodeSetParams(exec, node, &params));
}

static void tokens(int by_nodes) {
  CUdeviceptr cache;
  CUgraph graphs[SIZES];
  CUgraphExec execs[SIZES];
  CHECK(cuMemAlloc(&cache, BYTES));
  CHECK(cuMemsetD32(cache, 0, BYTES / 4));
  CHECK(cuCtxSynchronize());
  for (int size = 0; size < SIZES; ++size) {
    graphs[size] = record(size, cache);
    CHECK(cuGraphInstantiate(&execs[size], graphs[size], 0));
  }
  for (int token = 0; token < TOKENS; ++token) {
    const int size = token % SIZES;
    const CUdeviceptr at = cache + BYTES / 8 * (size_t)token;
    if (by_nodes) {
      set_end(execs[size], last_of(graphs[size]), at);
    } else {
      CUgraphExecUpdateResultInfo why;
      CUgraph newer = record(size, at);
      CHECK(cuGraphExecUpdate(execs[size], newer, &why));
      CHECK(cuGraphDestroy(newer));
    }
    CHECK(cuGraphLaunch(execs[size], stream));
    if (token % 2 == 1) CHECK(cuStreamSynchronize(stream));
  }
  CHECK(cuStreamSynchronize(stream));
  show("cache", cache, BYTES);
  for (int size = 0; size < SIZES; ++size) {
    CHECK(cuGraphExecDestroy(execs[size]));
    CHECK(cuGraphDestroy(graphs[size]));
  }
  CHECK(cuMemFree(cache));
}

// Two graphs, forward and backward, whose temporaries are parts of one segment of 12 MiB, at the same addresses in each
// step; inputs are copied into a static buffer before.
static void pool(void) {
  CUdeviceptr segment;
  CUgraphExec passes[2];
  CHECK(cuMemAlloc(&segment, 3 * BYTES));
  CHECK(cuMemsetD32(segment, 1, 3 * BYTES / 4));
  CHECK(cuCtxSynchronize());
  for (int pass = 0; pass < 2; ++pass) {
    CUgraph graph = NULL;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < BUFFERS; ++i) {
      const CUdeviceptr temporary = segment + BYTES * (size_t)(i % 3);
      mix_on(stream, temporary, buffers[pass == 0 ? i : BUFFERS - 1 - i]);
      if (pass == 1) mix_on(stream, buffers[BUFFERS - 1 - i], temporary);
    }
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&passes[pass], graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    CHECK(cuGraphDestroy(graph));
  }
  for (uint32_t step = 0; step < 4; ++step) {
    CHECK(cuMemsetD32Async(segment, step, BYTES / 4, stream));
    for (int pass = 0; pass < 2; ++pass) CHECK(cuGraphLaunch(passes[pass], stream));
  }
  CHECK(cuStreamSynchronize(stream));
  show("segment", segment, 3 * BYTES);
  for (int pass = 0; pass < 2; ++pass) CHECK(cuGraphExecDestroy(passes[pass]));
  CHECK(cuMemFree(segment));
}

int main(int count, char** arguments) {
  const char* kind = count > 1 ? arguments[1] : "";
  begin();
  make_buffers();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  if (strcmp(kind, "pool") == 0) {
    pool();
  } else {
    tokens(strcmp(kind, "nodes") == 0);
  }
  CHECK(cuStreamDestroy(stream));
  return finish();
}
