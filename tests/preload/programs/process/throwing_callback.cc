// SPDX-License-Identifier: Apache-2.0
// The program's out-of-memory callback throws. It is called where the library is there; the call is refused all the same.
#include <dlfcn.h>

#include "tests/preload/programs/small.h"

#include <stdexcept>

namespace {

using Callback = void (*)(const char* report, void* user);

void throw_up(const char* report, void*) { throw std::runtime_error(report); }

}  // namespace

int main() {
  begin();
  make_buffers();
  if (void* const set = dlsym(RTLD_DEFAULT, "thermocline_set_out_of_memory_callback"); set != nullptr)
    reinterpret_cast<int (*)(Callback, void*)>(set)(throw_up, nullptr);
  for (int i = 0; i < 2; ++i) {
    CUdeviceptr at = 0;
    std::printf("%d\n", cuMemAlloc(&at, static_cast<std::size_t>(1) << 50));
    mix_on(nullptr, buffers[0], buffers[1]);
  }
  return finish();
}
