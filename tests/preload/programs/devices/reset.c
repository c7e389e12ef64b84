// SPDX-License-Identifier: Apache-2.0
// One device is reset while the other has pending work, and begins again.
#include "tests/preload/programs/several.h"

int main(void) {
  for (int device = 0; device < DEVICES; ++device) {
    open_device(device);
    make_buffers_on(device);
  }
  step_on(0);
  step_on(1);
  CHECK(cuStreamSynchronize(places[1].stream));
  on(0);
  CHECK(cuMemcpyPeerAsync(places[1].buffers[2], places[1].context, places[0].buffers[3], places[0].context, BYTES,
                          places[0].stream));
  CHECK(cuStreamSynchronize(places[0].stream));
  show_device(0);
  CHECK(cuDevicePrimaryCtxReset(0));
  step_on(1);
  show_device(1);
  CHECK(cuDevicePrimaryCtxRelease(0));
  open_device(0);
  make_buffers_on(0);
  step_on(0);
  step_on(1);
  show_device(0);
  show_device(1);
  close_device(0);
  close_device(1);
  return 0;
}
