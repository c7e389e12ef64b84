// SPDX-License-Identifier: Apache-2.0
// load LIBRARY...: loads them in order, makes the first calls to the last one (begin.h), and prints the answers.
#include <dlfcn.h>

#include "tests/no_device/begin.h"

int main(int count, char** words) {
  void* last = nullptr;
  for (int i = 1; i < count; ++i) {
    last = dlopen(words[i], RTLD_NOW | RTLD_GLOBAL);
    if (last != nullptr) continue;
    std::fprintf(stderr, "load: %s\n", dlerror());
    return 3;
  }
  for (const no_device::Beginning& one : no_device::kBeginnings) {
    void* const function = dlsym(last, one.name);
    if (function == nullptr) continue;
    std::printf("%s ", one.name);
    std::printf("%d\n", one.call(function));
    std::fflush(stdout);
  }
  return 0;
}
