// SPDX-License-Identifier: Apache-2.0
// A non-blocking communicator: the operation is executed later.
#include "tests/preload/programs/nccl/ranks.h"

int main(void) {
  begin_ranks(1);
  fakeGoToBackground(comms[0]);
  if (ncclAllReduce(at(0), at(1), WORDS, ncclUint32, ncclSum, comms[0], NULL) != ncclInProgress) return 3;
  crowd(2);
  int result = ncclInProgress;
  DONE(ncclCommGetAsyncError(comms[0], &result));
  DONE(result);
  crowd(2);
  return end_ranks(1);
}
