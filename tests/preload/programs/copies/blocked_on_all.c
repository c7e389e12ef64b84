// SPDX-License-Identifier: Apache-2.0
// The work of a blocked stream leaves no room for other work: the errors that the program gets, and that everything
// continues afterwards.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUstream blocked, working;
  CHECK(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&working, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemsetD32(buffers[0], 0, 64));
  CHECK(cuCtxSynchronize());
  CHECK(cuStreamWaitValue32(blocked, buffers[0], 1, CU_STREAM_WAIT_VALUE_EQ));
  for (int i = 1; i < 4; ++i) mix_on(blocked, buffers[i], buffers[i + 1]);
  void* parameters[] = {&buffers[6], &buffers[7]};
  TELL(cuLaunchKernel(mix, 64, 1, 1, 128, 1, 1, 0, working, parameters, NULL));
  CHECK(cuStreamWriteValue32(working, buffers[0], 1, CU_STREAM_WRITE_VALUE_DEFAULT));
  CHECK(cuStreamSynchronize(blocked));
  mix_on(working, buffers[6], buffers[7]);
  CHECK(cuStreamSynchronize(working));
  CHECK(cuStreamDestroy(blocked));
  CHECK(cuStreamDestroy(working));
  free_buffers();
  end();
  return 0;
}
