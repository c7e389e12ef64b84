// SPDX-License-Identifier: Apache-2.0
// The first device takes buffers until it is refused one, then the second one does. The second one works on what it has.
// Then the first one frees its buffers, and the second one asks for more. Argument: how many each asks for at most.
#include <stdlib.h>

#include "tests/preload/programs/several.h"

#define MOST 64

static CUdeviceptr taken[DEVICES][MOST];
static int count[DEVICES];
static int most = MOST;

static void take_all(int device, const char* when) {
  on(device);
  while (count[device] < most && cuMemAlloc(&taken[device][count[device]], BYTES) == CUDA_SUCCESS) {
    fill(taken[device][count[device]], BYTES, (uint32_t)(device * 100 + count[device]));
    ++count[device];
  }
  CHECK(cuCtxSynchronize());
  printf("%s device %d has %d\n", when, device, count[device]);
}

static void work_on(int device) {
  on(device);
  for (int i = 0; i < count[device]; ++i) mix_there(device, taken[device][i], taken[device][(i + 1) % count[device]]);
  CHECK(cuCtxSynchronize());
}

static void show_all(int device) {
  on(device);
  for (int i = 0; i < count[device]; ++i) show(device == 0 ? "first" : "second", taken[device][i], BYTES);
}

static void give_all(int device) {
  on(device);
  while (count[device] > 0) CHECK(cuMemFree(taken[device][--count[device]]));
}

int main(int argc, char** argv) {
  if (argc > 1) most = atoi(argv[1]);
  if (most < 1 || most > MOST) return 2;
  for (int device = 0; device < DEVICES; ++device) open_device(device);
  take_all(0, "first");
  take_all(1, "first");
  for (int turn = 0; turn < 2; ++turn) {
    for (int device = 0; device < DEVICES; ++device) work_on(device);
  }
  for (int device = 0; device < DEVICES; ++device) show_all(device);
  give_all(0);
  take_all(1, "then");
  work_on(1);
  show_all(1);
  give_all(1);
  take_all(0, "last");
  work_on(0);
  give_all(0);
  for (int device = 0; device < DEVICES; ++device) close_device(device);
  return 0;
}
