// SPDX-License-Identifier: Apache-2.0
// Graphs whose nodes write values and wait for them: captured, added, and set to other words. A launch needs no more
// than what its nodes name, which is a part of what there is.
#include "tests/preload/programs/small.h"

static CUstream stream, writing;
static CUdeviceptr words;

static CUstreamBatchMemOpParams operation(CUstreamBatchMemOpType type, CUdeviceptr at, unsigned value) {
  CUstreamBatchMemOpParams one = {0};
  // A value that is written has the same place in its structure as one that is waited for.
  one.waitValue.operation = type;
  one.waitValue.address = at;
  one.waitValue.value = value;
  if (type == CU_STREAM_MEM_OP_WAIT_VALUE_32) one.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  return one;
}

static CUDA_BATCH_MEM_OP_NODE_PARAMS batch(CUstreamBatchMemOpParams* all, unsigned count) {
  CUDA_BATCH_MEM_OP_NODE_PARAMS params = {0};
  params.ctx = context;
  params.count = count;
  params.paramArray = all;
  return params;
}

// Others need the device between two launches.
static void use_the_others(void) {
  for (int i = 2; i < BUFFERS; ++i) mix_on(stream, buffers[i], buffers[i == 2 ? BUFFERS - 1 : i - 1]);
}

static void captured(void) {
  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  mix_on(stream, buffers[0], buffers[1]);
  CHECK(cuStreamWaitValue32(stream, words, 1, CU_STREAM_WAIT_VALUE_EQ));
  mix_on(stream, buffers[1], buffers[0]);
  CHECK(cuStreamWriteValue32(stream, words, 2, CU_STREAM_WRITE_VALUE_DEFAULT));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  for (int round = 0; round < 3; ++round) {
    use_the_others();
    CHECK(cuGraphLaunch(step, stream));
    CHECK(cuStreamWriteValue32(writing, words, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    CHECK(cuStreamSynchronize(stream));
    show("captured", words, 64);
  }
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
}

static void added(void) {
  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  CUgraphNode node = NULL, set = NULL;
  CUstreamBatchMemOpParams all[3] = {operation(CU_STREAM_MEM_OP_WRITE_VALUE_32, words + 64, 3),
                                     operation(CU_STREAM_MEM_OP_WAIT_VALUE_32, words + 64, 3),
                                     operation(CU_STREAM_MEM_OP_WRITE_VALUE_32, words + 68, 4)};
  CUDA_BATCH_MEM_OP_NODE_PARAMS params = batch(all, 3), read = {0};
  CHECK(cuGraphCreate(&graph, 0));
  CHECK(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params));
  CHECK(cuGraphBatchMemOpNodeGetParams(node, &read));
  printf("%u operations, the last writes %u\n", read.count, (unsigned)read.paramArray[2].writeValue.value);
  CUDA_MEMSET_NODE_PARAMS fives = {0};
  fives.dst = buffers[0];
  fives.value = 5;
  fives.elementSize = 4;
  fives.width = BYTES / 4;
  fives.height = 1;
  CHECK(cuGraphAddMemsetNode(&set, graph, &node, 1, &fives, context));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  use_the_others();
  CHECK(cuGraphLaunch(step, stream));
  CHECK(cuStreamSynchronize(stream));
  show("added", words, 128);
  // The executable graph alone writes elsewhere.
  all[2] = operation(CU_STREAM_MEM_OP_WRITE_VALUE_32, buffers[1], 6);
  CHECK(cuGraphExecBatchMemOpNodeSetParams(step, node, &params));
  use_the_others();
  CHECK(cuGraphLaunch(step, stream));
  CHECK(cuStreamSynchronize(stream));
  show("set", buffers[1], 64);
  // An executable graph keeps the number of operations and their types.
  CUgraphExecUpdateResultInfo result;
  params.count = 1;
  TELL(cuGraphExecBatchMemOpNodeSetParams(step, node, &params));
  CHECK(cuGraphBatchMemOpNodeSetParams(node, &params));
  TELL(cuGraphExecUpdate(step, graph, &result));
  params.count = 3;
  for (unsigned i = 0; i < 3; ++i) all[i].writeValue.address = words + 72;
  for (unsigned i = 0; i < 3; ++i) all[i].writeValue.value = i == 2 ? 8 : 7;
  CHECK(cuGraphBatchMemOpNodeSetParams(node, &params));
  CHECK(cuGraphExecUpdate(step, graph, &result));
  use_the_others();
  CHECK(cuGraphLaunch(step, stream));
  CHECK(cuStreamSynchronize(stream));
  show("updated", words, 128);
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
}

int main(void) {
  begin();
  make_buffers();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&writing, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&words, 4096));
  CHECK(cuMemsetD32(words, 0, 1024));
  CHECK(cuCtxSynchronize());
  captured();
  added();
  CHECK(cuMemFree(words));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuStreamDestroy(writing));
  return finish();
}
