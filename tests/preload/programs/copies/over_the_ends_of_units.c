// SPDX-License-Identifier: Apache-2.0
// Small copies and sets that lie in two eviction units of each buffer, where the budget of the test has room for one
// unit at a time. The buffers are divided in the middle.
#include "tests/preload/programs/small.h"

#define LARGE ((size_t)40 << 20)
#define MIDDLE (LARGE / 2)
#define SMALL ((size_t)1 << 20)
#define SIDE ((size_t)512)

static CUdeviceptr a, b;
static CUstream stream;

static void say(const char* what) {
  printf("%s\n", what);
  show("a", a + MIDDLE - 4 * SMALL, 8 * SMALL);
  show("b", b + MIDDLE - 4 * SMALL, 8 * SMALL);
}

static void ranges(void) {
  CHECK(cuMemcpyDtoD(a + MIDDLE - SMALL / 2, b + MIDDLE - SMALL / 4, SMALL));
  CHECK(cuCtxSynchronize());
  CHECK(cuMemcpyDtoDAsync(b + MIDDLE - SMALL, a + MIDDLE - SMALL - 12, 2 * SMALL, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemcpyPeer(a + MIDDLE - 100, context, b + MIDDLE - 99, context, 200));
  CHECK(cuMemsetD8(a + MIDDLE - 17, 3, 40));
  CHECK(cuCtxSynchronize());
  CHECK(cuMemsetD16Async(b + MIDDLE - 50, 3, 50, stream));
  CHECK(cuStreamSynchronize(stream));
  fill(a + MIDDLE - 1000, 3000, 4);
  show("both", a + MIDDLE - 300, 600);
  say("ranges");
}

static void rows(void) {
  CUDA_MEMCPY2D two = {0};
  two.srcMemoryType = two.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  two.srcDevice = a + MIDDLE - SMALL - 1000;
  two.dstDevice = b + MIDDLE - SMALL - 2000;
  two.srcPitch = two.dstPitch = SMALL;
  two.WidthInBytes = 3000;
  two.Height = 3;
  CHECK(cuMemcpy2D(&two));
  CHECK(cuCtxSynchronize());
  // A row of which there is no whole one in a unit.
  two.srcDevice = b + MIDDLE - SMALL;
  two.dstDevice = a + MIDDLE - SMALL - 4096;
  two.srcPitch = two.dstPitch = 2 * SMALL;
  two.WidthInBytes = 2 * SMALL - 100;
  two.Height = 1;
  CHECK(cuMemcpy2DAsync(&two, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemsetD2D32(a + MIDDLE - 1024, 4096, 7, 512, 2));
  CHECK(cuCtxSynchronize());
  CHECK(cuMemsetD2D8Async(b + MIDDLE - 5, 4096, 8, 1000, 3, stream));
  CHECK(cuStreamSynchronize(stream));
  say("rows");
}

static CUarray make_array(size_t width, size_t height, unsigned channels) {
  CUDA_ARRAY_DESCRIPTOR wanted = {0};
  wanted.Width = width;
  wanted.Height = height;
  wanted.Format = CU_AD_FORMAT_UNSIGNED_INT32;
  wanted.NumChannels = channels;
  CUarray array = NULL;
  CHECK(cuArrayCreate(&array, &wanted));
  return array;
}

static void arrays(void) {
  CUarray line = make_array(32768, 0, 4);
  CHECK(cuMemcpyDtoA(line, 16, a + MIDDLE - 4096 - 8, 8192));
  CHECK(cuMemcpyAtoD(b + MIDDLE - 4096 - 4, line, 16, 8192));
  say("a line");
  CUarray square = make_array(SIDE, SIDE, 1);
  CUDA_MEMCPY2D copy = {0};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = b + MIDDLE - SMALL / 2 - 8;
  copy.srcPitch = SIDE * 4;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = square;
  copy.WidthInBytes = SIDE * 4;
  copy.Height = SIDE;
  CHECK(cuMemcpy2D(&copy));
  CHECK(cuCtxSynchronize());
  CUDA_MEMCPY3D back = {0};
  back.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  back.srcArray = square;
  back.srcXInBytes = 16;
  back.srcY = 1;
  back.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  back.dstDevice = a + MIDDLE - SMALL / 4;
  back.dstPitch = SIDE * 4;
  back.dstHeight = SIDE;
  back.WidthInBytes = SIDE * 4 - 32;
  back.Height = SIDE - 2;
  back.Depth = 1;
  CHECK(cuMemcpy3DAsync(&back, stream));
  CHECK(cuStreamSynchronize(stream));
  say("a square");
  CHECK(cuArrayDestroy(line));
  CHECK(cuArrayDestroy(square));
}

int main(void) {
  begin();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&a, LARGE));
  CHECK(cuMemAlloc(&b, LARGE));
  fill(a, LARGE, 1);
  fill(b, LARGE, 2);
  CHECK(cuCtxSynchronize());
  ranges();
  rows();
  arrays();
  CHECK(cuMemFree(a));
  CHECK(cuMemFree(b));
  CHECK(cuStreamDestroy(stream));
  end();
  return 0;
}
