// SPDX-License-Identifier: Apache-2.0
// Calls outside of groups, on the default stream and on others, and memory that NCCL allocates for the program.
#include "tests/preload/programs/nccl/ranks.h"

int main(void) {
  begin_ranks(1);
  void* own = NULL;
  DONE(ncclMemAlloc(&own, BYTES));
  for (int i = 0; i < BUFFERS; ++i) {
    DONE(ncclAllReduce(at(i), at((i + 3) % BUFFERS), WORDS, ncclUint32, ncclSum, comms[0], NULL));
    mix_on(NULL, buffers[(i + 5) % BUFFERS], buffers[i]);
    DONE(ncclAllReduce(at(i), own, WORDS, ncclUint32, ncclSum, comms[0], NULL));
    DONE(ncclAllReduce(own, at((i + 1) % BUFFERS), WORDS, ncclUint32, ncclSum, comms[0], NULL));
  }
  CHECK(cuCtxSynchronize());
  DONE(ncclMemFree(own));
  return end_ranks(1);
}
