// SPDX-License-Identifier: Apache-2.0
// Copies and sets of rows and layers, and batches of copies, of two buffers each of which nearly fills the budget: only
// one of them can be on the device at a time.
#include <string.h>

#include "tests/preload/programs/small.h"

#define PITCH ((size_t)4096)
#define LAYER_ROWS ((size_t)512)
#define LAYERS ((size_t)22)
#define ROWS (LAYER_ROWS * LAYERS - 1)
#define LARGE (ROWS * PITCH)

static CUdeviceptr a, b;
static CUstream stream;
static char* host;

static uint64_t digest_of(const void* at) {
  const uint64_t* words = (const uint64_t*)at;
  uint64_t digest = 1469598103934665603u;
  for (size_t i = 0; i < LARGE / sizeof *words; ++i) digest = (digest ^ words[i]) * 1099511628211u;
  return digest;
}

static void say(const char* what) {
  uint64_t digests[2];
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemcpyDtoH(host, a, LARGE));
  digests[0] = digest_of(host);
  CHECK(cuMemcpyDtoH(host, b, LARGE));
  digests[1] = digest_of(host);
  printf("%s %016llx %016llx\n", what, (unsigned long long)digests[0], (unsigned long long)digests[1]);
}

static void copy_rows(void) {
  CUDA_MEMCPY2D rows = {0};
  rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = a;
  rows.dstDevice = b;
  rows.srcPitch = rows.dstPitch = PITCH;
  rows.srcXInBytes = 17;
  rows.dstY = 3;
  rows.WidthInBytes = 3000;
  rows.Height = ROWS - 3;
  CHECK(cuMemcpy2DAsync(&rows, stream));
  CHECK(cuStreamSynchronize(stream));
  // In the other direction, with a smaller pitch there than here.
  rows.srcDevice = b;
  rows.dstDevice = a;
  rows.dstPitch = 2048;
  rows.dstXInBytes = 5;
  rows.WidthInBytes = 2000;
  CHECK(cuMemcpy2D(&rows));
  CHECK(cuCtxSynchronize());
  say("rows side by side");
}

static void copy_from_and_to_the_host(void) {
  CUDA_MEMCPY2D rows = {0};
  memset(host, 3, LARGE);
  rows.srcMemoryType = CU_MEMORYTYPE_HOST;
  rows.srcHost = host;
  rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.dstDevice = a;
  rows.srcPitch = rows.dstPitch = PITCH;
  rows.WidthInBytes = PITCH;
  rows.Height = ROWS;
  CHECK(cuMemcpy2DAsync(&rows, stream));
  CHECK(cuMemsetD2D32Async(b + 8, PITCH, 0x01020304, 700, ROWS, stream));
  say("from the host");
  memset(host, 0, LARGE);
  memset(&rows, 0, sizeof rows);
  rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = b;
  rows.dstMemoryType = CU_MEMORYTYPE_HOST;
  rows.dstHost = host;
  rows.srcPitch = rows.dstPitch = PITCH;
  rows.WidthInBytes = 1000;
  rows.Height = ROWS;
  CHECK(cuMemcpy2D(&rows));
  printf("to the host %016llx\n", (unsigned long long)digest_of(host));
}

static void copy_layers(void) {
  CUDA_MEMCPY3D box = {0};
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = b;
  box.dstDevice = a;
  box.srcPitch = box.dstPitch = PITCH;
  box.srcHeight = box.dstHeight = LAYER_ROWS;
  box.srcY = 2;
  box.dstZ = 1;
  box.WidthInBytes = 4000;
  box.Height = LAYER_ROWS - 10;
  box.Depth = LAYERS - 1;
  CHECK(cuMemcpy3DAsync(&box, stream));
  CHECK(cuStreamSynchronize(stream));
  // So large that one of them ends in another eviction unit than it begins in.
  box.srcHeight = box.dstHeight = LAYER_ROWS * (LAYERS / 2);
  box.dstZ = 0;
  box.Height = box.srcHeight - 5;
  box.Depth = 2;
  CHECK(cuMemcpy3D(&box));
  CHECK(cuCtxSynchronize());
  say("large layers");
}

static void copy_batches(void) {
  const size_t half = LARGE / 2;
  CUdeviceptr to[3] = {b, b + half, a + 64}, from[3] = {a + half, a, a + 4096};
  size_t bytes[3] = {half - 100, half - 100, 128}, first[2] = {0, 2};
  CUmemcpyAttributes attributes[2];
  memset(attributes, 0, sizeof attributes);
  attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
  CHECK(cuMemcpyBatchAsync(to, from, bytes, 2, attributes, first, 1, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemcpyBatchAsync(to, from, bytes, 3, attributes, first, 2, stream));
  say("batch of two kinds");
}

static void copy_batches_of_boxes(void) {
  CUDA_MEMCPY3D_BATCH_OP ops[2];
  memset(ops, 0, sizeof ops);
  for (int i = 0; i < 2; ++i) {
    ops[i].dst.type = ops[i].src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    ops[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    ops[i].extent.width = 1000;
    ops[i].extent.height = LAYER_ROWS;
    ops[i].extent.depth = LAYERS / 2 - 1;
    ops[i].dst.op.ptr.ptr = b + (size_t)i * LARGE / 2;
    ops[i].src.op.ptr.ptr = a + (size_t)i * 1024;
    ops[i].src.op.ptr.rowLength = PITCH;
  }
  ops[1].dst.op.ptr.rowLength = 2048;
  ops[1].dst.op.ptr.layerHeight = LAYER_ROWS;
  CHECK(cuMemcpy3DBatchAsync(2, ops, 0, stream));
  say("boxes");
}

// Sizes are in the array's elements of four bytes: the last layer is in another eviction unit than the first.
static void copy_through_an_array(void) {
  CUDA_ARRAY3D_DESCRIPTOR description = {0};
  CUarray array = NULL;
  CUDA_MEMCPY3D_BATCH_OP op;
  description.Width = description.Height = 64;
  description.Depth = 3;
  description.Format = CU_AD_FORMAT_UNSIGNED_INT32;
  description.NumChannels = 1;
  CHECK(cuArray3DCreate(&array, &description));
  for (int back = 0; back < 2; ++back) {
    memset(&op, 0, sizeof op);
    CUmemcpy3DOperand* const memory = back ? &op.dst : &op.src;
    CUmemcpy3DOperand* const middle = back ? &op.src : &op.dst;
    memory->type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    memory->op.ptr.ptr = back ? b : a;
    memory->op.ptr.rowLength = PITCH;
    memory->op.ptr.layerHeight = 1100;
    middle->type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    middle->op.array.array = array;
    op.extent.width = op.extent.height = 64;
    op.extent.depth = 3;
    op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    // All of the other buffer is fetched, so that the least recently used part is evicted: this buffer's last bytes.
    CHECK(cuMemsetD8Async(back ? b : a, 6, 100, stream));
    CHECK(cuMemsetD8Async(back ? a : b, 5, LARGE, stream));
    CHECK(cuMemcpy3DBatchAsync(1, &op, 0, stream));
  }
  say("through an array");
  CHECK(cuArrayDestroy(array));
}

int main(void) {
  begin();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  host = (char*)malloc(LARGE);
  CHECK(cuMemAlloc(&a, LARGE));
  CHECK(cuMemAlloc(&b, LARGE));
  fill(a, LARGE, 1);
  CHECK(cuMemsetD16(b, 0x1234, LARGE / 2));
  CHECK(cuMemsetD2D8(b + 100, 8192, 7, 5000, ROWS / 2));
  CHECK(cuCtxSynchronize());
  copy_rows();
  copy_from_and_to_the_host();
  copy_layers();
  copy_batches();
  copy_batches_of_boxes();
  copy_through_an_array();
  free(host);
  CHECK(cuMemFree(a));
  CHECK(cuMemFree(b));
  CHECK(cuStreamDestroy(stream));
  end();
  return 0;
}
