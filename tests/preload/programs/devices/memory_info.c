// SPDX-License-Identifier: Apache-2.0
// The amount of memory that each device reports, and the owner of each address. The output depends on the budget; the
// test interprets it.
#include "tests/preload/programs/several.h"

static void tell(int device) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  on(device);
  CHECK(cuMemGetInfo(&free_bytes, &total_bytes));
  printf("device %d: total %zu taken %zu\n", device, total_bytes, total_bytes - free_bytes);
}

static void tell_of(CUdeviceptr address) {
  int device = -1;
  unsigned long long id = 0;
  CUcontext of = NULL;
  CHECK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
  CHECK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, address));
  CHECK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
  printf("on %d, %s\n", device, of == places[device].context ? "in its context" : "elsewhere");
}

int main(void) {
  unsigned long long ids[DEVICES] = {0};
  CUdeviceptr one[DEVICES];
  for (int device = 0; device < DEVICES; ++device) {
    open_device(device);
    CHECK(cuMemAlloc(&one[device], (size_t)(device + 1) * BYTES));
  }
  tell(0);
  tell(1);
  // Whichever device is current.
  for (int device = 0; device < DEVICES; ++device) {
    tell_of(one[device]);
    CHECK(cuPointerGetAttribute(&ids[device], CU_POINTER_ATTRIBUTE_BUFFER_ID, one[device]));
  }
  printf("%s\n", ids[0] != ids[1] ? "two buffers" : "one buffer");
  CHECK(cuMemFree(one[0]));
  tell(0);
  tell(1);
  // In stream order; the stream's device counts.
  on(0);
  CUdeviceptr more = 0;
  CHECK(cuMemAllocAsync(&more, BYTES, places[1].stream));
  CHECK(cuStreamSynchronize(places[1].stream));
  tell_of(more);
  CHECK(cuMemFreeAsync(more, places[1].stream));
  CHECK(cuMemFree(one[1]));
  close_device(0);
  close_device(1);
  return 0;
}
