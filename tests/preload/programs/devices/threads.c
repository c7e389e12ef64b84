// SPDX-License-Identifier: Apache-2.0
// One thread per device, both at once, which copy to each other in opposite directions. Only copies and sets, because
// what a simulated kernel writes depends on how many ran before it.
#include <pthread.h>

#include "tests/preload/programs/several.h"

static pthread_barrier_t barrier;

static void copy_there(int device, int to, int from) {
  CUdeviceptr* buffers_there = places[device].buffers;
  CHECK(cuMemcpyDtoDAsync(buffers_there[to], buffers_there[from] + BYTES / 2, BYTES / 2, places[device].stream));
}

static void* run(void* argument) {
  const int device = *(const int*)argument;
  const int other = 1 - device;
  open_device(device);
  make_buffers_on(device);
  pthread_barrier_wait(&barrier);
  for (int step = 0; step < 3; ++step) {
    // Buffers 6 and 7 are only for what comes from the other device.
    for (int i = 0; i < 6; ++i) copy_there(device, i, (i + 2) % 6);
    CHECK(cuMemsetD8Async(places[device].buffers[step] + BYTES / 2, (unsigned char)(step + device), BYTES / 4,
                          places[device].stream));
    CHECK(cuMemcpyPeerAsync(places[other].buffers[6], places[other].context, places[device].buffers[step],
                            places[device].context, BYTES, places[device].stream));
  }
  CHECK(cuStreamSynchronize(places[device].stream));
  pthread_barrier_wait(&barrier);
  copy_there(device, 7, 6);
  CHECK(cuCtxSynchronize());
  pthread_barrier_wait(&barrier);
  return NULL;
}

int main(void) {
  pthread_t threads[DEVICES];
  const int devices[DEVICES] = {0, 1};
  pthread_barrier_init(&barrier, NULL, DEVICES);
  for (int i = 0; i < DEVICES; ++i) pthread_create(&threads[i], NULL, &run, (void*)&devices[i]);
  for (int i = 0; i < DEVICES; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < DEVICES; ++i) show_device(i);
  for (int i = 0; i < DEVICES; ++i) close_device(i);
  return 0;
}
