// SPDX-License-Identifier: Apache-2.0
// A thread destroys a context whose stream is blocked by a value. Before another thread writes the value, it forks,
// allocates in another context, and captures.
#include "tests/preload/programs/waiting.h"

#include <sys/wait.h>

static CUcontext doomed;

static void* destroy(void* nothing) {
  about_to_wait();
  CHECK(cuCtxDestroy(doomed));
  return nothing;
}

static void record_one(CUstream stream) {
  CUgraph graph = NULL;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphDestroy(graph));
}

static void fork_once(void) {
  int status = 1;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) exit(4);
}

int main(void) {
  CUstream blocked, working;
  CUdeviceptr memory = 0;
  begin();
  begin_to_wait();
  CHECK(cuStreamCreate(&working, CU_STREAM_NON_BLOCKING));
  CHECK(cuCtxCreate(&doomed, NULL, 0, 0));
  CHECK(cuMemAlloc(&memory, BYTES));
  CHECK(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
  block(blocked, 1);
  CHECK(cuMemsetD32Async(memory, 5, BYTES / 4, blocked));
  CHECK(cuCtxSetCurrent(context));
  const pthread_t thread = start(destroy);
  fork_once();
  CHECK(cuMemAlloc(&memory, BYTES));
  CHECK(cuMemsetD32Async(memory, 6, BYTES / 4, working));
  record_one(working);
  release(working, 1);
  join(thread);
  show("memory", memory, BYTES);
  CHECK(cuMemFree(memory));
  CHECK(cuMemFreeHost(word));
  make_buffers();
  mix_all(working);
  CHECK(cuStreamSynchronize(working));
  CHECK(cuStreamDestroy(working));
  return finish();
}
