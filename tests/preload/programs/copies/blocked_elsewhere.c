// SPDX-License-Identifier: Apache-2.0
// One thread is in a copy that returns only after a blocked stream has continued; another thread continues to work, and
// only then writes the value that blocks the stream.
#include "tests/preload/programs/small.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum {
  TO_PAGEABLE,
  TO_PAGEABLE_IN_ORDER,
  FROM_PAGEABLE,
  ROWS,
  LAYERS_IN_ORDER,
  AT_ONCE,
  BEHIND_THE_LEGACY_STREAM,
  KINDS
};

static CUstream blocked, working, behind, blocking;
static void* pageable;
static int copies_now;

static void copy_rows(void) {
  CUDA_MEMCPY2D rows = {0};
  rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = buffers[1];
  rows.srcPitch = 2048;
  rows.dstMemoryType = CU_MEMORYTYPE_HOST;
  rows.dstHost = pageable;
  rows.dstPitch = rows.WidthInBytes = 1024;
  rows.Height = 512;
  CHECK(cuMemcpy2D(&rows));
}

static void copy_layers(void) {
  CUDA_MEMCPY3D layers = {0};
  layers.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  layers.srcDevice = buffers[1];
  layers.srcPitch = 2048;
  layers.srcHeight = 256;
  layers.dstMemoryType = CU_MEMORYTYPE_HOST;
  layers.dstHost = pageable;
  layers.dstPitch = layers.WidthInBytes = 1024;
  layers.dstHeight = layers.Height = 128;
  layers.Depth = 4;
  CHECK(cuMemcpy3DAsync(&layers, behind));
}

static void copy_at_once(void) {
  CUmemcpyAttributes attributes = {0};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  size_t first = 0, bytes = BYTES;
  CUdeviceptr to = buffers[2], from = (CUdeviceptr)pageable;
  CHECK(cuMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &first, 1, behind));
}

static void* copy(void* kind) {
  __atomic_store_n(&copies_now, 1, __ATOMIC_RELEASE);
  switch (*(int*)kind) {
    case TO_PAGEABLE:
      CHECK(cuMemcpyDtoH(pageable, buffers[1], BYTES));
      break;
    case TO_PAGEABLE_IN_ORDER:
      CHECK(cuMemcpyDtoHAsync(pageable, buffers[1], BYTES, behind));
      break;
    case FROM_PAGEABLE:
      CHECK(cuMemcpyHtoD(buffers[2], pageable, BYTES));
      break;
    case ROWS:
      copy_rows();
      break;
    case LAYERS_IN_ORDER:
      copy_layers();
      break;
    case AT_ONCE:
      copy_at_once();
      break;
    case BEHIND_THE_LEGACY_STREAM:  // nothing is in the stream itself
      CHECK(cuMemcpyDtoHAsync(pageable, buffers[1], BYTES, blocking));
      break;
    default:
      break;
  }
  return NULL;
}

static void* copy_in_context(void* kind) {
  CHECK(cuCtxSetCurrent(context));
  return copy(kind);
}

// All but the first three buffers: some of them have to be fetched.
static void work(int round) {
  for (int k = 0; k < BUFFERS; ++k) {
    CHECK(cuMemsetD32Async(buffers[3 + k % (BUFFERS - 3)], (unsigned)(round * 100 + k), BYTES / 8, working));
  }
}

static void round_of(int kind, unsigned value) {
  pthread_t other;
  CUevent event = NULL;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(cuStreamWaitValue32(blocked, buffers[0], value, CU_STREAM_WAIT_VALUE_EQ));
  mix_on(blocked, buffers[1], buffers[2]);
  CHECK(cuEventRecord(event, blocked));
  CHECK(cuStreamWaitEvent(behind, event, 0));
  CHECK(cuStreamWaitEvent(NULL, event, 0));
  __atomic_store_n(&copies_now, 0, __ATOMIC_RELEASE);
  if (pthread_create(&other, NULL, copy_in_context, &kind) != 0) exit(3);
  while (__atomic_load_n(&copies_now, __ATOMIC_ACQUIRE) == 0) sched_yield();
  usleep(20000);  // by now it is usually in the copy
  work(kind);
  CHECK(cuStreamSynchronize(working));
  CHECK(cuStreamWriteValue32(working, buffers[0], value, CU_STREAM_WRITE_VALUE_DEFAULT));
  if (pthread_join(other, NULL) != 0) exit(3);
  CHECK(cuStreamSynchronize(behind));
  CHECK(cuStreamSynchronize(blocking));
  CHECK(cuCtxSynchronize());
  CHECK(cuEventDestroy(event));
  show_bytes("host", pageable, BYTES);
}

int main(void) {
  begin();
  make_buffers();
  pageable = pattern(BYTES, 77);
  CHECK(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&working, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&behind, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  CHECK(cuMemsetD32(buffers[0], 0, 64));
  CHECK(cuCtxSynchronize());
  for (int kind = 0; kind < KINDS; ++kind) round_of(kind, (unsigned)kind + 1);
  CHECK(cuStreamDestroy(blocked));
  CHECK(cuStreamDestroy(working));
  CHECK(cuStreamDestroy(behind));
  CHECK(cuStreamDestroy(blocking));
  free(pageable);
  return finish();
}
