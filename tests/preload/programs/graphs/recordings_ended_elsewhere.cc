// SPDX-License-Identifier: Apache-2.0
// Captures that end in another thread than they began in, or while another stream captures. After that no stream
// captures: memory with unseen accesses is freed after these have completed, as the driver does it.
#include <thread>

#include "tests/preload/programs/unseen.h"

namespace {

CUstream begin_to_record() {
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  mix_on(stream, buffers[0], buffers[1]);
  return stream;
}

void end_recording(CUstream stream) {
  CUgraph graph = nullptr;
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphDestroy(graph));
}

}  // namespace

int main() {
  begin();
  const Unseen unseen = begin_unseen();
  make_buffers();
  CUstream begun_here = begin_to_record();
  std::thread([&] { end_recording(begun_here); }).join();
  free_all_behind_what_is_unseen(unseen);
  CUstream first = begin_to_record(), second = begin_to_record();
  end_recording(first);
  end_recording(second);
  free_all_behind_what_is_unseen(unseen);
  for (CUstream one : {begun_here, first, second}) CHECK(cuStreamDestroy(one));
  end_unseen(unseen);
  return finish();
}
