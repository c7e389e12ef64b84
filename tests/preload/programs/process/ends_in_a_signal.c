// SPDX-License-Identifier: Apache-2.0
// A program that ends in a signal handler that interrupted a call, whose locks are never released: while an event is
// written to the recording ("recording"), or while the driver reports a race ("driver"). Or it ends while one thread
// stays in the driver, and another waits for that one with the library's lock ("others").
#include "tests/preload/programs/small.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void leave(int number) {
  signal(number, SIG_IGN);
  exit(3);
}

static void fill_the_recording(void) {
  const struct rlimit limit = {16384, 16384};
  for (int i = 0; i < 100000; ++i) {
    CUdeviceptr at = 0;
    CHECK(cuMemAlloc(&at, BYTES));
    CHECK(cuMemFree(at));
    // The simulated device also keeps its memory in a file, which has its full size by now.
    if (i == 0 && (signal(SIGXFSZ, leave) == SIG_ERR || setrlimit(RLIMIT_FSIZE, &limit) != 0)) exit(4);
  }
}

static void race(void) {
  int ends[2];
  CUstream streams[2];
  CHECK(cuMemAlloc(&buffers[0], BYTES));
  for (int i = 0; i < 2; ++i) CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
  signal(SIGPIPE, leave);
  if (pipe(ends) != 0 || dup2(ends[1], 2) != 2 || close(ends[0]) != 0) exit(4);
  for (int i = 0; i < 2; ++i) CHECK(cuMemsetD8Async(buffers[0], 1, BYTES, streams[i]));
  CHECK(cuCtxSynchronize());
}

static CUstream stream;

static int entered, ready;

static void CUDA_CB stay(void* nothing) {
  (void)nothing;
  __atomic_store_n(&entered, 1, __ATOMIC_RELEASE);
  for (;;) pause();
}

static void wait_until(const int* is_set) {
  while (!__atomic_load_n(is_set, __ATOMIC_ACQUIRE)) usleep(1000);
}

static void* synchronize(void* nothing) {
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuStreamSynchronize(stream));
  return nothing;
}

// Buffers are evicted and fetched, which takes many calls of the driver with the lock held.
static void* launch(void* nothing) {
  CUstream own = NULL;
  (void)nothing;
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
  for (;;) {
    mix_all(own);
    __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
  }
}

static void end_beside_others(void) {
  pthread_t threads[2];
  make_buffers();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  if (pthread_create(&threads[1], NULL, launch, NULL) != 0) exit(4);
  wait_until(&ready);
  CHECK(cuLaunchHostFunc(stream, stay, NULL));
  if (pthread_create(&threads[0], NULL, synchronize, NULL) != 0) exit(4);
  wait_until(&entered);
  usleep(100000);
  exit(3);
}

int main(int count, char** words) {
  alarm(120);  // instead of hanging forever
  begin();
  if (count > 1 && strcmp(words[1], "recording") == 0) fill_the_recording();
  if (count > 1 && strcmp(words[1], "driver") == 0) race();
  if (count > 1 && strcmp(words[1], "others") == 0) end_beside_others();
  return 0;
}
