// SPDX-License-Identifier: Apache-2.0
// Memory that is freed behind work that uses it, and asked for again in the same size. The argument says what else
// happens. Bytes are copied and no kernel runs: what a kernel mixes depends on how often the driver was asked.
#include "tests/preload/programs/small.h"

#include <string.h>

static const char* what = "";
static CUstream other;

static int is(const char* name) { return strcmp(what, name) == 0; }

static void CUDA_CB nothing(void* user) { (void)user; }

static void prepare(CUstream stream) {
  CUcontext second = NULL;
  if (is("blocked")) CHECK(cuLaunchHostFunc(stream, &nothing, NULL));
  if (!is("second_context") && !is("context_gone")) return;
  CHECK(cuCtxCreate(&second, NULL, 0, 0));
  if (is("context_gone")) CHECK(cuCtxDestroy(second));
  CHECK(cuCtxSetCurrent(context));
}

static void before_the_free(CUdeviceptr scratch) {
  unsigned int on = 1;
  CUipcMemHandle handle;
  if (is("shared")) TELL(cuIpcGetMemHandle(&handle, scratch));
  if (is("attribute")) TELL(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, scratch));
  if (is("captured")) CHECK(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
  if (is("unused")) CHECK(cuCtxSetCurrent(NULL));
}

static void after_the_free(CUdeviceptr scratch) {
  CUgraph graph = NULL;
  if (is("captured")) TELL(cuStreamEndCapture(other, &graph));
  if (graph != NULL) CHECK(cuGraphDestroy(graph));
  if (is("unused")) CHECK(cuCtxSetCurrent(context));
  if (is("twice")) TELL(cuMemFree(scratch));
  if (is("twice")) TELL(cuMemFreeAsync(scratch, NULL));
}

int main(int count, char** arguments) {
  CUstream stream;
  if (count > 1) what = arguments[1];
  begin();
  make_buffers();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  prepare(stream);
  for (int round = 0; round < 4; ++round) {
    CUdeviceptr scratch = 0, base = 0;
    size_t bytes = 0;
    CHECK(cuMemAlloc(&scratch, 2 * BYTES));
    CHECK(cuMemGetAddressRange(&base, &bytes, scratch + 5));
    printf("range %d, %zu bytes\n", base == scratch, bytes);
    // The stream that uses it next knows nothing of the last one.
    CUstream user = round % 2 == 0 ? stream : other;
    CHECK(cuMemsetD8Async(scratch, (unsigned char)round, 2 * BYTES, user));
    CHECK(cuMemcpyDtoDAsync(scratch + BYTES / 2, buffers[round], BYTES, user));
    for (int i = 0; i < 3; ++i) {
      const size_t shift = (size_t)i * BYTES / 2;
      CHECK(cuMemcpyDtoDAsync(buffers[(round + 5 + i) % BUFFERS], scratch + shift, BYTES, user));
    }
    if (is("captured")) CHECK(cuStreamSynchronize(user));
    before_the_free(scratch);
    const CUresult freed = cuMemFree(scratch);
    after_the_free(scratch);
    printf("freed: %d\n", (int)freed);
    if (freed != CUDA_SUCCESS) CHECK(cuMemFree(scratch));
  }
  return finish();
}
