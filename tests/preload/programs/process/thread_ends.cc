// SPDX-License-Identifier: Apache-2.0
// Threads whose own objects free memory when the thread ends.
#include "tests/preload/programs/small.h"

#include <thread>

namespace {

struct Owner {
  CUdeviceptr scratch = 0;
  ~Owner() {
    if (scratch != 0) CHECK(cuMemFree(scratch));
  }
};
thread_local Owner owner;

}  // namespace

int main() {
  begin();
  make_buffers();
  for (int i = 0; i < BUFFERS; ++i) {
    std::thread([i] {
      CHECK(cuCtxSetCurrent(context));
      CHECK(cuMemAlloc(&owner.scratch, BYTES));
      CHECK(cuMemcpyDtoD(owner.scratch, buffers[i], BYTES));
      mix_on(nullptr, buffers[i], owner.scratch);
    }).join();
  }
  return finish();
}
