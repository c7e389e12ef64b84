// SPDX-License-Identifier: Apache-2.0
// The work of a blocked stream leaves no room for other work, until another thread writes the value that blocks it: the
// launch that needs room waits until then.
#include <pthread.h>
#include <time.h>

#include "tests/preload/programs/small.h"

static CUstream blocked, working, writing;

static void* release(void* unused) {
  (void)unused;
  const struct timespec while_it_stands = {0, 30 * 1000 * 1000};
  CHECK(cuCtxSetCurrent(context));
  nanosleep(&while_it_stands, NULL);
  CHECK(cuStreamWriteValue32(writing, buffers[0], 1, CU_STREAM_WRITE_VALUE_DEFAULT));
  return NULL;
}

int main(void) {
  begin();
  make_buffers();
  CHECK(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&working, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&writing, CU_STREAM_NON_BLOCKING));
  for (int round = 0; round < 2; ++round) {
    CHECK(cuMemsetD32(buffers[0], 0, 64));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamWaitValue32(blocked, buffers[0], 1, CU_STREAM_WAIT_VALUE_EQ));
    for (int i = 1; i < 4; ++i) mix_on(blocked, buffers[i], buffers[i + 1]);
    pthread_t thread;
    if (pthread_create(&thread, NULL, release, NULL) != 0) return 1;
    mix_on(working, buffers[6], buffers[7]);
    mix_on(working, buffers[5], buffers[6]);
    if (pthread_join(thread, NULL) != 0) return 1;
    CHECK(cuStreamSynchronize(blocked));
    CHECK(cuStreamSynchronize(working));
  }
  CHECK(cuStreamDestroy(blocked));
  CHECK(cuStreamDestroy(working));
  CHECK(cuStreamDestroy(writing));
  return finish();
}
