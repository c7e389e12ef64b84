// SPDX-License-Identifier: Apache-2.0
// A texture whose destruction has to wait is destroyed when another context's thread waits for its own: texture handles are the
// context's, so it must be destroyed there and nowhere else.
#include "tests/preload/programs/waiting.h"

int main(void) {
  CUdeviceptr memory = 0, others = 0;
  CUcontext other;
  CUstream stream;
  CUgraph graph;
  CUDA_RESOURCE_DESC resource;
  begin();
  CHECK(cuMemAlloc(&memory, BYTES));
  CHECK(cuMemsetD32(memory, 1, BYTES / 4));
  const CUtexObject texture = texture_of(memory, BYTES);
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuCtxSynchronize());
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(cuMemFree(memory));
  CHECK(cuTexObjectDestroy(texture));
  CHECK(cuStreamEndCapture(stream, &graph));
  TELL(cuTexObjectDestroy(texture));
  CHECK(cuCtxCreate(&other, NULL, 0, 0));
  CHECK(cuMemAlloc(&others, BYTES));
  const CUtexObject others_texture = texture_of(others, BYTES);
  CHECK(cuCtxSynchronize_v2(context));
  TELL(cuTexObjectGetResourceDesc(&resource, others_texture));
  CHECK(cuTexObjectDestroy(others_texture));
  CHECK(cuCtxSetCurrent(context));
  TELL(cuTexObjectGetResourceDesc(&resource, texture));
  CHECK(cuGraphDestroy(graph));
  end();
  return 0;
}
