// SPDX-License-Identifier: Apache-2.0
// Each of two devices repeatedly uses more than its budget, in turns; memory is freed while the other device is
// current.
#include "tests/preload/programs/several.h"

int main(void) {
  for (int device = 0; device < DEVICES; ++device) {
    open_device(device);
    make_buffers_on(device);
  }
  for (int step = 0; step < 3; ++step) {
    step_on(0);
    step_on(1);
  }
  show_device(0);
  show_device(1);
  for (int i = 0; i < BUFFERS; ++i) CHECK(cuMemFree(places[0].buffers[i]));
  on(0);
  for (int i = 0; i < BUFFERS; ++i) CHECK(cuMemFreeAsync(places[1].buffers[i], places[1].stream));
  close_device(1);
  close_device(0);
  return 0;
}
