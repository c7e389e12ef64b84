// SPDX-License-Identifier: Apache-2.0
// A training step of `layers` layers, each with weights, an activation and a gradient of 4 MiB: forward and backward,
// `steps` times, `work` kernels for each. As single launches, or as one graph that is captured once and launched for each
// step: the same kernels on the same memory in the same order, so the same bits. The time of the last step goes to stderr.
//
// larger_than_the_budget launches|graph [layers steps work]
#include "tests/preload/programs/small.h"

#define MOST_LAYERS 64

static CUdeviceptr weights[MOST_LAYERS], activations[MOST_LAYERS], gradients[MOST_LAYERS];
static int layers = 4, steps = 4, work = 1;

static void allocate(CUdeviceptr* list, uint32_t seed) {
  for (int i = 0; i < layers; ++i) {
    CHECK(cuMemAlloc(&list[i], BYTES));
    fill(list[i], BYTES, seed + (uint32_t)i);
  }
}

static void run(CUstream stream, CUdeviceptr out, CUdeviceptr in) {
  for (int i = 0; i < work; ++i) mix_on(stream, out, in);
}

static void step(CUstream stream) {
  for (int i = 0; i < layers; ++i) {
    CHECK(cuMemcpyDtoDAsync(activations[i], weights[i], BYTES, stream));
    if (i > 0) run(stream, activations[i], activations[i - 1]);
  }
  for (int i = layers - 1; i >= 0; --i) {
    CHECK(cuMemsetD32Async(gradients[i], 1, BYTES / 4, stream));
    run(stream, gradients[i], activations[i]);
    if (i < layers - 1) run(stream, gradients[i], gradients[i + 1]);
    run(stream, weights[i], gradients[i]);
  }
}

int main(int count, char** arguments) {
  const int in_graph = count > 1 && strcmp(arguments[1], "graph") == 0;
  if (count > 2) layers = atoi(arguments[2]);
  if (count > 3) steps = atoi(arguments[3]);
  if (count > 4) work = atoi(arguments[4]);
  if (layers > MOST_LAYERS) return 1;
  begin();
  allocate(weights, 1);
  allocate(activations, 100);
  allocate(gradients, 200);
  CHECK(cuCtxSynchronize());
  CUstream stream;
  CUgraphExec exec = NULL;
  CUevent ends[2];
  float ms = 0;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 2; ++i) CHECK(cuEventCreate(&ends[i], CU_EVENT_DEFAULT));
  if (in_graph) {
    CUgraph graph = NULL;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    step(stream);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphDestroy(graph));
  }
  for (int i = 0; i < steps; ++i) {
    CHECK(cuEventRecord(ends[0], stream));
    if (in_graph) {
      CHECK(cuGraphLaunch(exec, stream));
    } else {
      step(stream);
    }
    CHECK(cuEventRecord(ends[1], stream));
    CHECK(cuStreamSynchronize(stream));
  }
  CHECK(cuEventElapsedTime(&ms, ends[0], ends[1]));
  fprintf(stderr, "program: the last step took %.3f ms\n", (double)ms);
  if (in_graph) CHECK(cuGraphExecDestroy(exec));
  for (int i = 0; i < layers; ++i) {
    show("weights", weights[i], BYTES);
    show("gradients", gradients[i], BYTES);
    CHECK(cuMemFree(weights[i]));
    CHECK(cuMemFree(activations[i]));
    CHECK(cuMemFree(gradients[i]));
  }
  CHECK(cuStreamDestroy(stream));
  end();
  return 0;
}
