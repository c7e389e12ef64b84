// SPDX-License-Identifier: Apache-2.0
// Another tool that interposes the driver: it counts allocations, finds the next definition with RTLD_NEXT, and prints
// at exit how many it has seen.
#include <cuda.h>

#include <dlfcn.h>

#include <cstdio>

namespace {

int allocations = 0;

__attribute__((destructor)) void say() { std::fprintf(stderr, "interposer: allocations=%d\n", allocations); }

}  // namespace

extern "C" __attribute__((visibility("default"))) CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  using Next = CUresult (*)(CUdeviceptr*, size_t);
  static const auto next = reinterpret_cast<Next>(dlsym(RTLD_NEXT, "cuMemAlloc_v2"));
  if (next == nullptr) return CUDA_ERROR_NOT_FOUND;
  ++allocations;
  return next(address, bytes);
}
