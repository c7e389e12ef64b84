// SPDX-License-Identifier: Apache-2.0
// Kernels of one device that read and write memory of the other after peer access was enabled: buffers from before and
// from after that, while both devices have more live memory than their budgets.
#include "tests/preload/programs/several.h"

int main(void) {
  CUevent written = NULL;
  int can = 0;
  for (int device = 0; device < DEVICES; ++device) open_device(device);
  make_buffers_on(0);
  on(1);
  CHECK(cuDeviceCanAccessPeer(&can, 1, 0));
  printf("can %d\n", can);
  CHECK(cuCtxEnablePeerAccess(places[0].context, 0));
  TELL(cuCtxEnablePeerAccess(places[0].context, 0));
  make_buffers_on(1);
  on(0);
  CHECK(cuEventCreate(&written, CU_EVENT_DISABLE_TIMING));
  // Freed and allocated again: allocated after peer access was enabled.
  CHECK(cuMemFree(places[0].buffers[4]));
  CHECK(cuMemAlloc(&places[0].buffers[4], BYTES));
  fill(places[0].buffers[4], BYTES, 77);
  CHECK(cuCtxSynchronize());
  for (int step = 0; step < 3; ++step) {
    step_on(0);
    CHECK(cuEventRecord(written, places[0].stream));
    on(1);
    CHECK(cuStreamWaitEvent(places[1].stream, written, 0));
    for (int i = 0; i < BUFFERS; ++i) mix_there(1, places[1].buffers[i], places[0].buffers[(i + step) % BUFFERS]);
    mix_there(1, places[0].buffers[step], places[1].buffers[step]);
    CHECK(cuStreamSynchronize(places[1].stream));
  }
  show_device(0);
  show_device(1);
  on(0);
  CHECK(cuEventDestroy(written));
  on(1);
  CHECK(cuCtxDisablePeerAccess(places[0].context));
  for (int device = 0; device < DEVICES; ++device) {
    for (int i = 0; i < BUFFERS; ++i) CHECK(cuMemFree(places[device].buffers[i]));
  }
  close_device(1);
  close_device(0);
  return 0;
}
