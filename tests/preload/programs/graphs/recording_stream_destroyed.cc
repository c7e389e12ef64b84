// SPDX-License-Identifier: Apache-2.0
// Capturing streams are destroyed, one together with its context, one with its green context. After that no stream
// captures: memory with unseen accesses is freed after these have completed, as the driver does it.
#include "tests/preload/programs/unseen.h"

namespace {

void record_and_destroy() {
  CUstream lost = nullptr;
  CHECK(cuStreamCreate(&lost, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(lost, CU_STREAM_CAPTURE_MODE_RELAXED));
  mix_on(lost, buffers[0], buffers[1]);
  CHECK(cuStreamDestroy(lost));
}

void record_in_a_context_that_ends() {
  CUcontext other = nullptr;
  CUstream lost = nullptr;
  CHECK(cuCtxCreate(&other, nullptr, 0, 0));
  CHECK(cuStreamCreate(&lost, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(lost, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(cuCtxDestroy(other));
  CHECK(cuCtxSetCurrent(context));
}

void record_in_a_green_context_that_ends() {
  CUdevResource resource{};
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  CUstream lost = nullptr;
  CHECK(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
  CHECK(cuDevResourceGenerateDesc(&description, &resource, 1));
  CHECK(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  CHECK(cuGreenCtxStreamCreate(&lost, green, CU_STREAM_NON_BLOCKING, 0));
  CHECK(cuStreamBeginCapture(lost, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(cuGreenCtxDestroy(green));
}

}  // namespace

int main() {
  begin();
  const Unseen unseen = begin_unseen();
  make_buffers();
  record_and_destroy();
  free_all_behind_what_is_unseen(unseen);
  record_in_a_context_that_ends();
  free_all_behind_what_is_unseen(unseen);
  record_in_a_green_context_that_ends();
  free_all_behind_what_is_unseen(unseen);
  end_unseen(unseen);
  return finish();
}
