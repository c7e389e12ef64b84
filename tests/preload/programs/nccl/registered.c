// SPDX-License-Identifier: Apache-2.0
// Registered buffers may be written at any time, without a call of the program.
#include "tests/preload/programs/nccl/ranks.h"

int main(void) {
  begin_ranks(1);
  void* handles[2] = {NULL, NULL};
  for (int i = 0; i < 2; ++i) DONE(ncclCommRegister(comms[0], at(i), BYTES, &handles[i]));
  for (int round = 0; round < 3; ++round) {
    crowd(2);
    DONE(fakeDeliver(comms[0], NULL));
    mix_on(NULL, buffers[2], buffers[0]);
  }
  CHECK(cuCtxSynchronize());
  for (int i = 0; i < 2; ++i) DONE(ncclCommDeregister(comms[0], handles[i]));
  for (int round = 0; round < 2; ++round) mix_all(NULL);
  return end_ranks(1);
}
