// SPDX-License-Identifier: Apache-2.0
// A thread with a small stack (the size can be given in bytes) allocates, copies, launches, waits and frees.
#include "tests/preload/programs/small.h"

#include <pthread.h>

// One page more than PTHREAD_STACK_MIN.
#define LITTLE 20480

static void* work(void* nothing) {
  CUdeviceptr scratch = 0;
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuMemAlloc(&scratch, BYTES));
  CHECK(cuMemcpyDtoD(scratch, buffers[1], BYTES));
  mix_all(NULL);
  mix_on(NULL, buffers[2], scratch);
  CHECK(cuStreamSynchronize(NULL));
  CHECK(cuMemFree(scratch));
  return nothing;
}

int main(int count, char** arguments) {
  pthread_attr_t little;
  pthread_t thread;
  begin();
  make_buffers();
  if (pthread_attr_init(&little) != 0) return 3;
  if (pthread_attr_setstacksize(&little, count > 1 ? (size_t)atol(arguments[1]) : (size_t)LITTLE) != 0) return 4;
  if (pthread_create(&thread, &little, work, NULL) != 0 || pthread_join(thread, NULL) != 0) return 5;
  return finish();
}
