// SPDX-License-Identifier: Apache-2.0
// As load.cc, with a static runtime (libcudart_static.a).
#include <dlfcn.h>

#include "tests/no_device/begin.h"

// References, so that the linker includes the functions.
extern "C" {
int cudaRuntimeGetVersion(int*);
int cudaDriverGetVersion(int*);
int cudaGetDeviceCount(int*);
int cudaFree(void*);
int cudaMalloc(void**, std::size_t);
int cudaStreamCreate(void**);
int cudaDeviceSynchronize();
int cudaGetLastError();
}

int main() {
  const struct {
    const char* name;
    void* function;
  } linked[] = {
      {"cudaRuntimeGetVersion", reinterpret_cast<void*>(&cudaRuntimeGetVersion)},
      {"cudaDriverGetVersion", reinterpret_cast<void*>(&cudaDriverGetVersion)},
      {"cudaGetDeviceCount", reinterpret_cast<void*>(&cudaGetDeviceCount)},
      {"cudaFree", reinterpret_cast<void*>(&cudaFree)},
      {"cudaMalloc", reinterpret_cast<void*>(&cudaMalloc)},
      {"cudaStreamCreate", reinterpret_cast<void*>(&cudaStreamCreate)},
      {"cudaDeviceSynchronize", reinterpret_cast<void*>(&cudaDeviceSynchronize)},
      {"cudaGetLastError", reinterpret_cast<void*>(&cudaGetLastError)},
  };
  for (const auto& [name, function] : linked) {
    for (const no_device::Beginning& one : no_device::kBeginnings) {
      if (std::string_view(one.name) != name) continue;
      std::printf("%s ", name);
      std::printf("%d\n", one.call(function));
      std::fflush(stdout);
    }
  }
  return 0;
}
