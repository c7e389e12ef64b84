// SPDX-License-Identifier: Apache-2.0
// Nodes that allocate and free: memory that the program frees after the launch, that a launch frees before it allocates
// again, and that another graph frees.
#include "tests/preload/programs/small.h"

static CUstream stream;

static CUgraphNode add_mix(CUfunction function, CUgraph graph, CUgraphNode after, CUdeviceptr out, CUdeviceptr in) {
  CUgraphNode node;
  void* parameters[] = {&out, &in};
  CUDA_KERNEL_NODE_PARAMS work = {0};
  work.func = function;
  work.gridDimX = 64;
  work.gridDimY = work.gridDimZ = work.blockDimY = work.blockDimZ = 1;
  work.blockDimX = 128;
  work.kernelParams = parameters;
  CHECK(cuGraphAddKernelNode(&node, graph, &after, 1, &work));
  return node;
}

static CUmemPoolProps on_the_device(void) {
  CUmemPoolProps place = {0};
  place.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  place.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return place;
}

// A graph that allocates, and fills the memory from a buffer. `scratch` gets the address of the allocation.
static CUgraph allocating(CUdeviceptr* scratch, int in_the_general_form) {
  CUgraph graph = NULL;
  CUgraphNode allocation;
  CHECK(cuGraphCreate(&graph, 0));
  if (in_the_general_form) {
    CUgraphNodeParams node = {0};
    node.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    node.alloc.poolProps = on_the_device();
    node.alloc.bytesize = BYTES;
    CHECK(cuGraphAddNode(&allocation, graph, NULL, NULL, 0, &node));
    *scratch = node.alloc.dptr;
  } else {
    CUDA_MEM_ALLOC_NODE_PARAMS wanted = {0};
    wanted.poolProps = on_the_device();
    wanted.bytesize = BYTES;
    CHECK(cuGraphAddMemAllocNode(&allocation, graph, NULL, 0, &wanted));
    *scratch = wanted.dptr;
  }
  add_mix(kernel("mix_new"), graph, allocation, *scratch, buffers[0]);
  return graph;
}

static void freed_by_the_program(void) {
  CUdeviceptr scratch = 0;
  CUgraph graph = allocating(&scratch, 0);
  CUgraphExec step = NULL;
  CHECK(cuGraphInstantiate(&step, graph, 0));
  CHECK(cuGraphUpload(step, stream));
  for (int round = 0; round < 3; ++round) {
    CHECK(cuGraphLaunch(step, stream));
    mix_on(stream, buffers[1 + round], scratch);
    mix_all(stream);
    if (round == 1) {
      CHECK(cuStreamSynchronize(stream));
      CHECK(cuMemFree(scratch));
    } else {
      CHECK(cuMemFreeAsync(scratch, stream));
    }
  }
  TELL(cuMemFreeAsync(scratch, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
}

// The last allocation outlives its graph.
static void freed_by_the_next_launch(void) {
  CUdeviceptr scratch = 0;
  CUgraph graph = allocating(&scratch, 1);
  CUgraphExec step = NULL;
  CHECK(cuGraphInstantiate(&step, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
  for (int round = 0; round < 3; ++round) {
    CHECK(cuGraphLaunch(step, stream));
    mix_on(stream, buffers[1 + round], scratch);
    mix_all(stream);
  }
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
  mix_on(stream, buffers[4], scratch);
  CHECK(cuMemFreeAsync(scratch, stream));
  CHECK(cuStreamSynchronize(stream));
}

static void freed_by_another_graph(void) {
  CUdeviceptr scratch = 0;
  CUgraph graph = allocating(&scratch, 0), other = NULL;
  CUgraphExec step = NULL, end = NULL;
  CUgraphNode before, freeing;
  CHECK(cuGraphCreate(&other, 0));
  CHECK(cuGraphAddEmptyNode(&before, other, NULL, 0));
  before = add_mix(mix, other, before, buffers[0], scratch);
  CHECK(cuGraphAddMemFreeNode(&freeing, other, &before, 1, scratch));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  CHECK(cuGraphInstantiate(&end, other, 0));
  for (int round = 0; round < 2; ++round) {
    CHECK(cuGraphLaunch(step, stream));
    CHECK(cuGraphLaunch(end, stream));
    mix_all(stream);
  }
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphExecDestroy(end));
  CHECK(cuGraphDestroy(other));
  CHECK(cuGraphDestroy(graph));
}

int main(void) {
  begin();
  make_buffers();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  freed_by_the_program();
  freed_by_the_next_launch();
  freed_by_another_graph();
  CHECK(cuDeviceGraphMemTrim(0));
  cuuint64_t held = 0;
  CHECK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &held));
  printf("held after all: %d\n", held != 0);
  CHECK(cuStreamDestroy(stream));
  return finish();
}
