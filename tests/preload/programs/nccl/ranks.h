// SPDX-License-Identifier: Apache-2.0
// Shared by the programs of this folder: two ranks in one process, each with a stream and half of the buffers, and
// other work that causes everything evictable to be evicted.
#pragma once

#include "tests/preload/programs/nccl/api.h"
#include "tests/preload/programs/small.h"

#define RANKS 2
#define WORDS (BYTES / 4)

#define DONE(call)                                                        \
  do {                                                                    \
    const int done_result = (call);                                       \
    if (done_result != ncclSuccess) {                                     \
      fprintf(stderr, "program: NCCL: %d from %s\n", done_result, #call); \
      exit(2);                                                            \
    }                                                                     \
  } while (0)

static ncclComm_t comms[RANKS];
static CUstream streams[RANKS];

static inline void* at(int buffer) { return (void*)buffers[buffer]; }

static inline void crowd(int first) {
  for (int i = first; i < BUFFERS; ++i) mix_on(NULL, buffers[i], buffers[i == first ? BUFFERS - 1 : i - 1]);
}

static inline void begin_ranks(int ranks) {
  begin();
  for (int rank = 0; rank < RANKS; ++rank) CHECK(cuStreamCreate(&streams[rank], CU_STREAM_DEFAULT));
  const int devices[RANKS] = {0, 0};
  DONE(ncclCommInitAll(comms, ranks, devices));
  make_buffers();
}

static inline int end_ranks(int ranks) {
  CHECK(cuCtxSynchronize());
  show_buffers();
  for (int rank = 0; rank < ranks; ++rank) DONE(ncclCommDestroy(comms[rank]));
  for (int rank = 0; rank < RANKS; ++rank) CHECK(cuStreamDestroy(streams[rank]));
  free_buffers();
  end();
  return 0;
}
