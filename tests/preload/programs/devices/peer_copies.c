// SPDX-License-Identifier: Apache-2.0
// Copies between two devices, both with more live memory than their budgets: in streams of either, by plain copies with
// unified addresses, with the host waiting, and between other work on the same buffers.
#include "tests/preload/programs/several.h"

static void cross(int device, CUdeviceptr to, CUdeviceptr from) {
  const int other = 1 - device;
  on(device);
  CHECK(cuMemcpyPeerAsync(to, places[other].context, from, places[device].context, BYTES, places[device].stream));
}

int main(void) {
  CUevent ready = NULL;
  for (int device = 0; device < DEVICES; ++device) {
    open_device(device);
    make_buffers_on(device);
  }
  on(0);
  CHECK(cuEventCreate(&ready, CU_EVENT_DISABLE_TIMING));
  for (int step = 0; step < 3; ++step) {
    step_on(0);
    cross(0, places[1].buffers[step], places[0].buffers[step + 1]);
    CHECK(cuEventRecord(ready, places[0].stream));
    on(1);
    CHECK(cuStreamWaitEvent(places[1].stream, ready, 0));
    step_on(1);
    cross(1, places[0].buffers[step + 2], places[1].buffers[step]);
    CHECK(cuStreamSynchronize(places[1].stream));
  }
  // Without naming contexts, in a stream whose context is not the current one, and without a stream.
  on(1);
  CHECK(cuMemcpyAsync(places[1].buffers[6], places[0].buffers[5], BYTES, places[0].stream));
  CHECK(cuStreamSynchronize(places[0].stream));
  CHECK(cuMemcpyPeer(places[0].buffers[7], places[0].context, places[1].buffers[6], places[1].context, BYTES / 2));
  CHECK(cuCtxSynchronize());
  CHECK(cuMemcpyDtoD(places[1].buffers[7], places[0].buffers[6], BYTES / 2));
  CHECK(cuCtxSynchronize());
  show_device(0);
  show_device(1);
  // Freed in the order of a stream of the other device, and allocated again at once.
  cross(1, places[0].buffers[0], places[1].buffers[1]);
  CHECK(cuMemFreeAsync(places[0].buffers[0], places[1].stream));
  on(0);
  CHECK(cuMemAllocAsync(&places[0].buffers[0], BYTES, places[0].stream));
  CHECK(cuMemsetD8Async(places[0].buffers[0], 7, BYTES, places[0].stream));
  CHECK(cuStreamSynchronize(places[0].stream));
  show("again", places[0].buffers[0], BYTES);
  CHECK(cuEventDestroy(ready));
  for (int i = 0; i < BUFFERS; ++i) {
    CHECK(cuMemFree(places[0].buffers[i]));
    CHECK(cuMemFree(places[1].buffers[i]));
  }
  close_device(0);
  close_device(1);
  return 0;
}
