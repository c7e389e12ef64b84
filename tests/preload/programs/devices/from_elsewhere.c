// SPDX-License-Identifier: Apache-2.0
// Copies between the host and memory of one device, and within that memory, in streams of the other device: pinned and
// pageable, ranges and rows, with the host waiting or not, in default streams, and in a context without allocations.
// Neither device may use the other's memory.
#include <string.h>

#include "tests/preload/programs/several.h"

#define ROW 4096

static CUevent there_done;
static unsigned char* pinned;

// In the first device's context, after everything in its stream; the visitor's stream waits for that.
static void behind_the_first(CUcontext visitor, CUstream stream) {
  CUevent first_done = NULL;
  on(0);
  CHECK(cuEventCreate(&first_done, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventRecord(first_done, places[0].stream));
  CHECK(cuCtxSetCurrent(visitor));
  CHECK(cuStreamWaitEvent(stream, first_done, 0));
  CHECK(cuEventDestroy(first_done));
}

static void before_the_first(CUevent done, CUstream stream) {
  CHECK(cuEventRecord(done, stream));
  on(0);
  CHECK(cuStreamWaitEvent(places[0].stream, done, 0));
}

static void copy_rows(CUdeviceptr to, const void* from, CUstream stream) {
  CUDA_MEMCPY2D rows = {0};
  rows.srcMemoryType = CU_MEMORYTYPE_HOST;
  rows.srcHost = from;
  rows.srcPitch = 2 * ROW;
  rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.dstDevice = to;
  rows.dstPitch = 2 * ROW;
  rows.WidthInBytes = ROW;
  rows.Height = BYTES / (2 * ROW);
  CHECK(cuMemcpy2DAsync(&rows, stream));
}

static void visit(CUcontext visitor, CUstream stream, CUevent done, uint32_t seed) {
  CUdeviceptr* ours = places[0].buffers;
  void* pageable = pattern(BYTES, seed);
  step_on(0);
  behind_the_first(visitor, stream);
  memcpy(pinned, pageable, BYTES);
  CHECK(cuMemcpyHtoDAsync(ours[0], pinned, BYTES, stream));
  CHECK(cuMemcpyHtoDAsync(ours[1], pageable, BYTES, stream));
  copy_rows(ours[2], pinned, stream);
  CHECK(cuMemcpyDtoDAsync(ours[3], ours[4], BYTES, stream));
  before_the_first(done, stream);
  step_on(0);
  behind_the_first(visitor, stream);
  CHECK(cuMemcpyDtoHAsync(pinned, ours[5], BYTES, stream));
  CHECK(cuMemcpyDtoHAsync(pageable, ours[6], BYTES, stream));
  CHECK(cuStreamSynchronize(stream));
  show_bytes("pinned", pinned, BYTES);
  show_bytes("pageable", pageable, BYTES);
  // In the visitor's default stream: after everything in its other streams, and the host waits.
  CHECK(cuMemcpyHtoD(ours[7], pageable, BYTES));
  CHECK(cuMemcpyDtoH(pageable, ours[7], BYTES));
  show_bytes("back", pageable, BYTES);
  CHECK(cuMemcpyHtoDAsync(ours[6], pinned, BYTES, CU_STREAM_PER_THREAD));
  CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
  free(pageable);
}

int main(void) {
  open_device(0);
  open_device(1);
  CHECK(cuMemHostAlloc((void**)&pinned, BYTES, CU_MEMHOSTALLOC_PORTABLE));
  make_buffers_on(0);
  on(1);
  CHECK(cuEventCreate(&there_done, CU_EVENT_DISABLE_TIMING));
  // Before the second device has an engine, with one, and in contexts that are created and destroyed.
  visit(places[1].context, places[1].stream, there_done, 5);
  make_buffers_on(1);
  visit(places[1].context, places[1].stream, there_done, 6);
  for (uint32_t round = 0; round < 2; ++round) {
    CUcontext other = NULL;
    CUstream stream = NULL;
    CUevent done = NULL;
    CHECK(cuCtxCreate(&other, NULL, 0, 1));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    visit(other, stream, done, 7 + round);
    on(0);
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxDestroy(other));
  }
  step_on(1);
  show_device(0);
  show_device(1);
  on(1);
  CHECK(cuEventDestroy(there_done));
  for (int i = 0; i < BUFFERS; ++i) {
    CHECK(cuMemFree(places[0].buffers[i]));
    CHECK(cuMemFree(places[1].buffers[i]));
  }
  CHECK(cuMemFreeHost(pinned));
  close_device(0);
  close_device(1);
  return 0;
}
