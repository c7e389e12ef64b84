// SPDX-License-Identifier: Apache-2.0
// An exception unwinds through objects that free memory and wait for streams; it is caught, and the program goes on.
#include <string>

#include "tests/preload/programs/small.h"

#include <stdexcept>

namespace {

struct Scratch {
  CUdeviceptr at = 0;
  Scratch() { CHECK(cuMemAlloc(&at, BYTES)); }
  ~Scratch() { CHECK(cuMemFree(at)); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
};

struct Stream {
  CUstream stream = nullptr;
  Stream() { CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT)); }
  ~Stream() {
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamDestroy(stream));
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

void fail_at(int round) {
  const Scratch scratch;
  const Stream stream;
  CHECK(cuMemcpyDtoDAsync(scratch.at, buffers[round], BYTES, stream.stream));
  mix_on(stream.stream, buffers[round], scratch.at);
  throw std::runtime_error("round " + std::to_string(round));
}

}  // namespace

int main() {
  begin();
  make_buffers();
  for (int i = 0; i < BUFFERS; ++i) {
    try {
      fail_at(i);
    } catch (const std::runtime_error& error) {
      std::printf("%s\n", error.what());
    }
  }
  return finish();
}
