// SPDX-License-Identifier: Apache-2.0
// A program that uses only the second device.
#include "tests/preload/programs/several.h"

int main(void) {
  int device = -1;
  open_device(1);
  make_buffers_on(1);
  step_on(1);
  step_on(1);
  CHECK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, places[1].buffers[0]));
  printf("device %d\n", device);
  show_device(1);
  for (int i = 0; i < BUFFERS; ++i) CHECK(cuMemFree(places[1].buffers[i]));
  close_device(1);
  return 0;
}
