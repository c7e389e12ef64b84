// SPDX-License-Identifier: Apache-2.0
// For programs in which one thread waits for a stream that is blocked by a value, until another thread has continued.
#pragma once

#include "tests/preload/programs/small.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

// A program that hangs is ended by a signal.
#define MOST_SECONDS 120

static unsigned* word;  // host address of the value
static int now_waiting;

static inline void begin_to_wait(void) {
  alarm(MOST_SECONDS);
  CHECK(cuMemHostAlloc((void**)&word, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  *word = 0;
}

static inline void block(CUstream stream, unsigned value) {
  CHECK(cuStreamWaitValue32(stream, (CUdeviceptr)word, value, CU_STREAM_WAIT_VALUE_EQ));
}

static inline void release(CUstream by, unsigned value) {
  CHECK(cuStreamWriteValue32(by, (CUdeviceptr)word, value, CU_STREAM_WRITE_VALUE_DEFAULT));
  CHECK(cuStreamSynchronize(by));
}

static inline void about_to_wait(void) { __atomic_store_n(&now_waiting, 1, __ATOMIC_RELEASE); }

// Returns when the thread is (usually) in the call that waits.
static inline pthread_t start(void* (*body)(void*)) {
  pthread_t thread;
  __atomic_store_n(&now_waiting, 0, __ATOMIC_RELEASE);
  if (pthread_create(&thread, NULL, body, NULL) != 0) exit(3);
  while (__atomic_load_n(&now_waiting, __ATOMIC_ACQUIRE) == 0) sched_yield();
  usleep(100000);
  return thread;
}

static inline void join(pthread_t thread) {
  if (pthread_join(thread, NULL) != 0) exit(3);
}

static inline CUdeviceptr texture_of(CUdeviceptr memory, size_t bytes) {
  CUDA_RESOURCE_DESC resource = {0};
  CUDA_TEXTURE_DESC how = {0};
  CUtexObject texture = 0;
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = memory;
  resource.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
  resource.res.linear.numChannels = 1;
  resource.res.linear.sizeInBytes = bytes;
  CHECK(cuTexObjectCreate(&texture, &resource, &how, NULL));
  return texture;
}
