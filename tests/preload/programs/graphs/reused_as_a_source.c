// SPDX-License-Identifier: Apache-2.0
// A graph copied from the library's memory to memory that the program maps itself, and both the graph and the source
// were freed. What another buffer at the source's addresses contains later must not be carried along: every kernel may
// follow pointers in the program's own mappings, and everything together would not fit.
#include "tests/preload/programs/small.h"

#define WORDS 512
#define OWN ((size_t)2 << 20)

static CUdeviceptr map_own(void) {
  CUmemAllocationProp property = {0};
  CUmemAccessDesc access = {0};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr at = 0;
  property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location = property.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemCreate(&handle, OWN, &property, 0));
  CHECK(cuMemAddressReserve(&at, OWN, 0, 0, 0));
  CHECK(cuMemMap(at, OWN, 0, handle, 0));
  CHECK(cuMemSetAccess(at, OWN, &access, 1));
  CHECK(cuMemRelease(handle));
  return at;
}

static CUgraphExec copying(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  CUgraph graph = NULL;
  CUgraphNode node;
  CUgraphExec step = NULL;
  CUDA_MEMCPY3D copy = {0};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  CHECK(cuGraphCreate(&graph, 0));
  CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  CHECK(cuGraphDestroy(graph));
  return step;
}

int main(void) {
  begin();
  make_buffers();
  CUdeviceptr own = map_own(), from = 0, again = 0;
  CHECK(cuMemAlloc(&from, WORDS * sizeof from));
  CHECK(cuMemsetD32(from, 1, 2 * WORDS));
  CUgraphExec step = copying(own, from, WORDS * sizeof from);
  CHECK(cuGraphLaunch(step, NULL));
  CHECK(cuCtxSynchronize());
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuMemFree(from));
  CHECK(cuMemAlloc(&again, WORDS * sizeof from));
  CHECK(cuMemcpyHtoD(again, buffers, sizeof buffers));
  step = copying(buffers[0], buffers[1], 4096);
  CHECK(cuGraphLaunch(step, NULL));
  mix_on(NULL, buffers[2], buffers[3]);
  CHECK(cuCtxSynchronize());
  printf("the addresses came again: %d\n", again == from);
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuMemFree(again));
  CHECK(cuMemUnmap(own, OWN));
  CHECK(cuMemAddressFree(own, OWN));
  return finish();
}
