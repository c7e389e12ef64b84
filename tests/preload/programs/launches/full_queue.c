// SPDX-License-Identifier: Apache-2.0
// One thread submits more to a blocked stream than the driver's queue holds, and waits in a call; another continues to
// allocate and work, and only then lets the stream continue.
#include "tests/preload/programs/waiting.h"

#define OPERATIONS 1500
#define SMALL ((size_t)4096)

enum { LAUNCHES, SETS, COPIES, EVENTS, GRAPHS, HOST_FUNCTIONS, VALUES, KINDS };

static CUstream blocked, working;
static CUdeviceptr small[2];
static CUevent before, behind;
static CUgraphExec step;
static int kind, calls_made, runs;

static void CUDA_CB count(void* data) { ++*(int*)data; }

static void submit(unsigned i) {
  switch (kind) {
    case LAUNCHES:
      launch_mix(mix, blocked, small[i % 2], small[(i + 1) % 2], SMALL);
      break;
    case SETS:
      CHECK(cuMemsetD32Async(small[i % 2], i, SMALL / 4, blocked));
      break;
    case COPIES:
      CHECK(cuMemcpyDtoDAsync(small[i % 2], small[(i + 1) % 2] + 64, 256, blocked));
      break;
    case EVENTS:
      CHECK(i % 2 == 0 ? cuEventRecord(behind, blocked) : cuStreamWaitEvent(blocked, before, 0));
      break;
    case GRAPHS:
      CHECK(cuGraphLaunch(step, blocked));
      break;
    case HOST_FUNCTIONS:
      CHECK(cuLaunchHostFunc(blocked, count, &runs));
      break;
    case VALUES:
      CHECK(cuStreamWriteValue32(blocked, small[0], i, CU_STREAM_WRITE_VALUE_DEFAULT));
      break;
    default:
      break;
  }
}

static void* fill_queue(void* nothing) {
  CHECK(cuCtxSetCurrent(context));
  about_to_wait();
  for (unsigned i = 0; i < OPERATIONS; ++i) {
    submit(i);
    __atomic_fetch_add(&calls_made, 1, __ATOMIC_RELEASE);
  }
  // Whatever filled the queue, memory is used after it.
  launch_mix(mix, blocked, small[1], small[0], SMALL);
  return nothing;
}

// Waits until the other thread is (usually) in a call that does not return.
static void wait_until_it_is_full(void) {
  for (int last = -1, now = 0; now != last || now == 0;) {
    last = now;
    usleep(10000);
    now = __atomic_load_n(&calls_made, __ATOMIC_ACQUIRE);
  }
}

static CUdeviceptr work(void) {
  CUdeviceptr more = 0;
  CHECK(cuMemAlloc(&more, BYTES));
  CHECK(cuMemsetD32Async(more, 7, BYTES / 4, working));
  for (int i = 0; i < BUFFERS; ++i) mix_on(working, buffers[i], i % 2 == 0 ? more : buffers[(i + 3) % BUFFERS]);
  CHECK(cuMemsetD32Async(buffers[kind], (unsigned)kind, BYTES / 8, working));
  CHECK(cuStreamSynchronize(working));
  return more;
}

static void round_of(int which, unsigned value) {
  kind = which;
  calls_made = 0;
  block(blocked, value);
  pthread_t other;
  if (pthread_create(&other, NULL, fill_queue, NULL) != 0) exit(3);
  wait_until_it_is_full();
  const CUdeviceptr more = work();
  release(working, value);
  join(other);
  CHECK(cuStreamSynchronize(blocked));
  CHECK(cuMemFree(more));  // waits for all streams
  show("small", small[0], SMALL);
  show("small", small[1], SMALL);
}

static void make_step(void) {
  CUgraph graph = NULL;
  CHECK(cuStreamBeginCapture(working, CU_STREAM_CAPTURE_MODE_RELAXED));
  launch_mix(mix, working, small[0], small[1], SMALL);
  CHECK(cuStreamEndCapture(working, &graph));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  CHECK(cuGraphDestroy(graph));
}

int main(void) {
  begin();
  begin_to_wait();
  make_buffers();
  for (int i = 0; i < 2; ++i) {
    CHECK(cuMemAlloc(&small[i], SMALL));
    fill(small[i], SMALL, 70 + (unsigned)i);
  }
  CHECK(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&working, CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventRecord(before, NULL));
  CHECK(cuCtxSynchronize());
  make_step();
  for (int which = 0; which < KINDS; ++which) round_of(which, (unsigned)which + 1);
  printf("host functions %d\n", runs);
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuEventDestroy(before));
  CHECK(cuEventDestroy(behind));
  CHECK(cuStreamDestroy(blocked));
  CHECK(cuStreamDestroy(working));
  for (int i = 0; i < 2; ++i) CHECK(cuMemFree(small[i]));
  CHECK(cuMemFreeHost(word));
  return finish();
}
