// SPDX-License-Identifier: Apache-2.0
// Memory that is allocated in a recording belongs to its graph: what the driver answers is what the program gets.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUstream stream;
  CUgraph graph = NULL;
  CUdeviceptr scratch = 0;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  const CUresult made = cuMemAllocAsync(&scratch, BYTES, stream);
  printf("allocated %d\n", (int)made);
  if (made == CUDA_SUCCESS) {
    mix_on(stream, scratch, buffers[0]);
    CHECK(cuMemFreeAsync(scratch, stream));
  }
  TELL(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  if (graph != NULL) CHECK(cuGraphDestroy(graph));
  CHECK(cuStreamDestroy(stream));
  mix_all(NULL);
  return finish();
}
