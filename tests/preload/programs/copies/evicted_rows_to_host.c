// SPDX-License-Identifier: Apache-2.0
// Rows, layers and batches of evicted memory are copied to the host: to pageable and to pinned memory, waiting and not,
// where a part of the source is on the device, where a row lies in both parts, and where nothing could be fetched. With
// an argument no copy has to wait for the host.
#include <string.h>

#include "tests/preload/programs/small.h"

#define MIB ((size_t)1 << 20)
#define LARGE (48 * MIB)
#define TARGET (4 * MIB)
// Rows that begin before the middle, where the first eviction unit ends, and end behind it.
#define BEGIN (LARGE / 2 - MIB)
#define WIDTH ((size_t)4500)
#define PITCH ((size_t)5000)
#define ROWS ((size_t)400)
#define LAYER_ROWS ((size_t)100)

static CUstream stream;
static CUdeviceptr large, room;
static unsigned char* pinned;
static unsigned char* pageable;

static void tell_of(const char* what, unsigned char* data) {
  CHECK(cuStreamSynchronize(stream));
  show_bytes(what, data, TARGET);
  memset(data, 0, TARGET);
}

static CUDA_MEMCPY2D rows_to(CUmemorytype type, void* host) {
  CUDA_MEMCPY2D copy = {0};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = large + BEGIN;
  copy.srcPitch = PITCH;
  copy.srcXInBytes = 12;
  copy.srcY = 3;
  copy.dstMemoryType = type;
  copy.dstHost = host;
  copy.dstDevice = (CUdeviceptr)host;
  copy.dstPitch = WIDTH + 64;
  copy.dstXInBytes = 8;
  copy.dstY = 1;
  copy.WidthInBytes = WIDTH;
  copy.Height = ROWS;
  return copy;
}

static CUDA_MEMCPY3D layers_to(CUmemorytype type, void* host) {
  CUDA_MEMCPY3D copy = {0};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = large + BEGIN;
  copy.srcPitch = PITCH;
  copy.srcHeight = LAYER_ROWS;
  copy.srcXInBytes = 4;
  copy.srcY = 2;
  copy.srcZ = 1;
  copy.dstMemoryType = type;
  copy.dstHost = host;
  copy.dstDevice = (CUdeviceptr)host;
  copy.dstPitch = WIDTH;
  copy.dstHeight = LAYER_ROWS;
  copy.WidthInBytes = WIDTH;
  copy.Height = LAYER_ROWS - 10;
  copy.Depth = 3;
  return copy;
}

static void copy_peer_layers(void* host) {
  const CUDA_MEMCPY3D same = layers_to(CU_MEMORYTYPE_HOST, host);
  CUDA_MEMCPY3D_PEER copy = {0};
  copy.srcMemoryType = same.srcMemoryType;
  copy.srcDevice = same.srcDevice;
  copy.srcContext = context;
  copy.srcPitch = same.srcPitch;
  copy.srcHeight = same.srcHeight;
  copy.dstMemoryType = same.dstMemoryType;
  copy.dstHost = host;
  copy.dstContext = context;
  copy.dstPitch = same.dstPitch;
  copy.dstHeight = same.dstHeight;
  copy.WidthInBytes = same.WidthInBytes;
  copy.Height = same.Height;
  copy.Depth = same.Depth;
  CHECK(cuMemcpy3DPeerAsync(&copy, stream));
}

static CUresult copy_ranges(unsigned char* host, CUmemcpySrcAccessOrder order, CUstream in) {
  CUdeviceptr to[3] = {(CUdeviceptr)host, (CUdeviceptr)host + MIB, (CUdeviceptr)host + 3 * MIB};
  CUdeviceptr from[3] = {large + 100, large + LARGE / 2 - MIB / 2, large + 47 * MIB};
  size_t bytes[3] = {MIB / 2, 3 * MIB / 2, MIB}, first = 0;
  CUmemcpyAttributes attributes = {0};
  attributes.srcAccessOrder = order;
  return cuMemcpyBatchAsync(to, from, bytes, 3, &attributes, &first, 1, in);
}

static void copy_boxes(unsigned char* host, CUmemcpySrcAccessOrder order) {
  CUDA_MEMCPY3D_BATCH_OP ops[2];
  memset(ops, 0, sizeof ops);
  for (int i = 0; i < 2; ++i) {
    ops[i].src.type = ops[i].dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    ops[i].src.op.ptr.ptr = large + BEGIN + (size_t)i * 128;
    ops[i].dst.op.ptr.ptr = (CUdeviceptr)host + (size_t)i * (2 * MIB);
    ops[i].extent.width = WIDTH;
    ops[i].extent.height = LAYER_ROWS - 10;
    ops[i].extent.depth = 3;
    ops[i].srcAccessOrder = order;
  }
  // The other's rows and layers follow each other without gaps.
  ops[0].src.op.ptr.rowLength = PITCH;
  ops[0].src.op.ptr.layerHeight = LAYER_ROWS;
  CHECK(cuMemcpy3DBatchAsync(2, ops, 0, stream));
}

static void copy_in_every_way(void) {
  CUDA_MEMCPY2D rows = rows_to(CU_MEMORYTYPE_HOST, pageable);
  CHECK(cuMemcpy2D(&rows));
  tell_of("rows", pageable);
  CHECK(cuMemcpy2DUnaligned(&rows));
  tell_of("rows, unaligned", pageable);
  CHECK(cuMemcpy2DAsync(&rows, stream));
  tell_of("rows in a stream", pageable);
  rows = rows_to(CU_MEMORYTYPE_UNIFIED, pinned);
  CHECK(cuMemcpy2D(&rows));
  tell_of("rows, unified", pinned);
  CHECK(cuMemcpy2DAsync(&rows, stream));
  tell_of("rows in a stream, unified", pinned);
  CUDA_MEMCPY3D layers = layers_to(CU_MEMORYTYPE_HOST, pageable);
  CHECK(cuMemcpy3D(&layers));
  tell_of("layers", pageable);
  layers = layers_to(CU_MEMORYTYPE_HOST, pinned);
  CHECK(cuMemcpy3DAsync(&layers, stream));
  tell_of("layers in a stream", pinned);
  copy_peer_layers(pinned);
  tell_of("layers of a peer", pinned);
  CHECK(copy_ranges(pinned, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, stream));
  tell_of("ranges", pinned);
  CHECK(copy_ranges(pageable, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL, stream));
  tell_of("ranges that are read at once", pageable);
  copy_boxes(pinned, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
  tell_of("boxes", pinned);
  copy_boxes(pageable, CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
  tell_of("boxes in any order", pageable);
}

// The calls must return although their stream does not go on.
static void copy_behind_a_wait(void) {
  uint32_t* flag = NULL;
  CHECK(cuMemHostAlloc((void**)&flag, sizeof *flag, 0));
  *flag = 0;
  CHECK(cuStreamWaitValue32(stream, (CUdeviceptr)flag, 1, CU_STREAM_WAIT_VALUE_EQ));
  const CUDA_MEMCPY2D rows = rows_to(CU_MEMORYTYPE_HOST, pinned);
  CHECK(cuMemcpy2DAsync(&rows, stream));
  *(volatile uint32_t*)flag = 1;
  tell_of("behind a wait", pinned);
  CHECK(copy_ranges(pinned, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, stream));
  // It is overwritten after the copies.
  CHECK(cuMemsetD8Async(large + 100, 3, 48, stream));
  tell_of("before it is overwritten", pinned);
  CHECK(cuMemFreeHost(flag));
}

static void copy_in_a_graph(void) {
  CUgraph graph = NULL;
  CUgraphExec exec = NULL;
  const CUDA_MEMCPY2D rows = rows_to(CU_MEMORYTYPE_HOST, pinned);
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuMemcpy2DAsync(&rows, stream));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  memset(pinned, 0, TARGET);
  CHECK(cuMemsetD8Async(large + BEGIN + PITCH, 9, 9 * PITCH, stream));
  CHECK(cuGraphLaunch(exec, stream));
  tell_of("in a graph", pinned);
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
}

// Copies that the driver refuses are refused under the library.
static void copy_what_is_wrong(void) {
  CUDA_MEMCPY2D rows = rows_to(CU_MEMORYTYPE_HOST, pageable);
  rows.srcPitch = 8;
  TELL(cuMemcpy2D(&rows));
  rows.srcPitch = PITCH;
  rows.Height = 0;
  TELL(cuMemcpy2D(&rows));
  TELL(copy_ranges(pinned, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, NULL));
}

int main(int count, char** arguments) {
  (void)arguments;
  CUmemGenericAllocationHandle physical = 0;
  const CUmemAllocationProp own = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                   .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  begin();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemHostAlloc((void**)&pinned, TARGET, 0));
  pageable = (unsigned char*)calloc(1, TARGET);
  memset(pinned, 0, TARGET);
  CHECK(cuMemAlloc(&large, LARGE));
  CHECK(cuMemAlloc(&room, LARGE));
  fill(large, LARGE, 7);
  fill(room, LARGE, 8);
  CHECK(cuCtxSynchronize());
  // The end of it stays.
  CHECK(cuMemsetD8Async(large + 40 * MIB, 1, 4096, stream));
  mix_on(stream, room, room);
  CHECK(cuStreamSynchronize(stream));
  copy_in_every_way();
  copy_what_is_wrong();
  if (count == 1) copy_behind_a_wait();
  // All the room is taken by the program's own mappings.
  CHECK(cuMemCreate(&physical, 64 * MIB, &own, 0));
  copy_in_every_way();
  CHECK(cuMemRelease(physical));
  copy_in_a_graph();

  show("large", large, LARGE);
  show("room", room, LARGE);
  CHECK(cuMemFree(large));
  CHECK(cuMemFree(room));
  CHECK(cuMemFreeHost(pinned));
  free(pageable);
  CHECK(cuStreamDestroy(stream));
  end();
  return 0;
}
