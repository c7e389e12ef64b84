// SPDX-License-Identifier: Apache-2.0
// Copies between two buffers that are one eviction unit each, of which the budget of the test has room for one at a
// time. No part of such a copy fits on the device.
#include <string.h>

#include "tests/preload/programs/small.h"

#define LARGE ((size_t)24 << 20)
#define PITCH ((size_t)4096)
#define ROWS (LARGE / PITCH)

static CUdeviceptr a, b;
static CUstream stream;

static void say(const char* what) {
  printf("%s\n", what);
  show("a", a, LARGE);
  show("b", b, LARGE);
}

// `stream` does not wait for the default stream.
static void refill(CUdeviceptr to, size_t bytes, uint32_t seed) {
  fill(to, bytes, seed);
  CHECK(cuCtxSynchronize());
}

static void ranges(void) {
  CHECK(cuMemcpyDtoD(b + 4096, a, LARGE - 4096));
  refill(a, LARGE, 3);
  CHECK(cuMemcpyDtoDAsync(b, a + 100, LARGE / 2, stream));
  CHECK(cuStreamSynchronize(stream));
  say("driver's names");
  CHECK(cuMemcpy(a, b + 1000, LARGE / 3));
  refill(b, LARGE / 4, 4);
  CHECK(cuMemcpyAsync(a + LARGE / 2, b, LARGE / 2, stream));
  CHECK(cuStreamSynchronize(stream));
  say("by address");
  CHECK(cuMemcpyPeer(b, context, a + 7, context, LARGE - 7));
  refill(a, LARGE, 5);
  CHECK(cuMemcpyPeerAsync(b + LARGE / 4, context, a, context, LARGE / 4, stream));
  CHECK(cuStreamSynchronize(stream));
  say("between contexts");
}

static void rows(void) {
  CUDA_MEMCPY2D two = {0};
  two.srcMemoryType = two.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  two.srcDevice = a;
  two.dstDevice = b;
  two.srcPitch = two.dstPitch = PITCH;
  two.WidthInBytes = 3000;
  two.Height = ROWS;
  CHECK(cuMemcpy2D(&two));
  refill(a, LARGE, 6);
  two.dstXInBytes = 1000;
  CHECK(cuMemcpy2DAsync(&two, stream));
  CHECK(cuStreamSynchronize(stream));
  say("rows");
  CUDA_MEMCPY3D three = {0};
  three.srcMemoryType = three.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  three.srcDevice = b;
  three.dstDevice = a;
  three.srcPitch = three.dstPitch = PITCH;
  three.srcHeight = three.dstHeight = ROWS / 8;
  three.WidthInBytes = 4000;
  three.Height = ROWS / 8 - 3;
  three.Depth = 8;
  CHECK(cuMemcpy3D(&three));
  refill(b, LARGE / 2, 7);
  CHECK(cuMemcpy3DAsync(&three, stream));
  CHECK(cuStreamSynchronize(stream));
  say("layers");
}

static void batches(void) {
  CUmemcpyAttributes attributes = {0};
  size_t first = 0, bytes[2] = {LARGE, LARGE / 2};
  CUdeviceptr to[2] = {b, b + LARGE / 2}, from[2] = {a, a};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  CHECK(cuMemcpyBatchAsync(to, from, bytes, 1, &attributes, &first, 1, stream));
  CHECK(cuStreamSynchronize(stream));
  refill(a, LARGE, 8);
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  CHECK(cuMemcpyBatchAsync(to + 1, from + 1, bytes + 1, 1, &attributes, &first, 1, stream));
  CHECK(cuStreamSynchronize(stream));
  say("batches");
  CUDA_MEMCPY3D_BATCH_OP copy;
  memset(&copy, 0, sizeof copy);
  copy.src.type = copy.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  copy.src.op.ptr.ptr = b;
  copy.dst.op.ptr.ptr = a;
  copy.extent.width = LARGE / 4;
  copy.extent.height = 2;
  copy.extent.depth = 1;
  copy.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  CHECK(cuMemcpy3DBatchAsync(1, &copy, 0, stream));
  CHECK(cuStreamSynchronize(stream));
  say("a batch of layers");
}

// The source of a copy is rewritten while the copy may still be to come.
static void in_order(void) {
  for (int round = 0; round < 6; ++round) {
    mix_on(stream, a, a);
    CHECK(cuMemcpyDtoDAsync(b, a, LARGE - 4096 * (size_t)round, stream));
    mix_on(stream, a, a);
    CHECK(cuMemcpyDtoDAsync(b + LARGE / 2, a, LARGE / 4, stream));
    mix_on(stream, b, b);
    CHECK(cuMemcpyDtoDAsync(a + 4096, b, LARGE / 2, stream));
  }
  CHECK(cuStreamSynchronize(stream));
  say("in order");
}

// Nobody has written what is copied.
static void undefined(void) {
  CUdeviceptr c = 0;
  CHECK(cuMemAlloc(&c, LARGE));
  CHECK(cuMemcpyDtoD(b, c, LARGE));
  CHECK(cuMemFree(c));
  refill(b, LARGE, 9);
  say("undefined");
}

int main(void) {
  begin();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&a, LARGE));
  CHECK(cuMemAlloc(&b, LARGE));
  refill(a, LARGE, 1);
  refill(b, LARGE, 2);
  CHECK(cuCtxSynchronize());
  ranges();
  rows();
  batches();
  in_order();
  undefined();
  CHECK(cuMemFree(a));
  CHECK(cuMemFree(b));
  CHECK(cuStreamDestroy(stream));
  end();
  return 0;
}
