// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/driver.h"

#include <dlfcn.h>

namespace conformance {

#define CONFORMANCE_TEXT(name) #name
#define CONFORMANCE_EXACT_NAME(name) CONFORMANCE_TEXT(name)

std::string Driver::load(const std::string& library) {
  void* const file = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) {
    const char* const why = dlerror();
    return why == nullptr ? library + " can not be loaded" : why;
  }
#define CONFORMANCE_LOOK_UP(function) \
  function.set(CONFORMANCE_EXACT_NAME(function), dlsym(file, CONFORMANCE_EXACT_NAME(function)));
  CONFORMANCE_DRIVER_FUNCTIONS(CONFORMANCE_LOOK_UP)
#undef CONFORMANCE_LOOK_UP
  return {};
}

std::string name_of(const Driver& cu, CUresult result) {
  const char* name = nullptr;
  if (cu.cuGetErrorName(result, &name) == CUDA_SUCCESS && name != nullptr) return name;
  return "error " + std::to_string(static_cast<int>(result));
}

}  // namespace conformance
