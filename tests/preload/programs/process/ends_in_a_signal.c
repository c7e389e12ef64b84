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

static void CUDA_CB stay(void* entered) {
  __atomic_store_n((int*)entered, 1, __ATOMIC_RELEASE);
  for (;;) pause();
}

static void* synchronize(void* nothing) {
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuStreamSynchronize(stream));
  return nothing;
}

static void* allocate(void* nothing) {
  CHECK(cuCtxSetCurrent(context));
  for (;;) {
    CUdeviceptr at = 0;
    CHECK(cuMemAlloc(&at, BYTES));
  }
  return nothing;
}

static void end_beside_others(void) {
  pthread_t threads[2];
  int entered = 0;
  CUdeviceptr at = 0;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&at, BYTES));
  CHECK(cuLaunchHostFunc(stream, stay, &entered));
  if (pthread_create(&threads[0], NULL, synchronize, NULL) != 0) exit(4);
  while (!__atomic_load_n(&entered, __ATOMIC_ACQUIRE)) usleep(1000);
  if (pthread_create(&threads[1], NULL, allocate, NULL) != 0) exit(4);
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
