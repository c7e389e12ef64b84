// SPDX-License-Identifier: Apache-2.0
// For comparison: an allocator for torch.cuda.memory.CUDAPluggableAllocator that uses managed memory, which the driver
// pages itself.
#include <cuda.h>
#include <dlfcn.h>
#include <sys/types.h>

#include <cstdint>
#include <cstdlib>

namespace {

template <class Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), name));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* managed_allocate(ssize_t bytes, int, void*) {
  static auto* const allocate = find<decltype(cuMemAllocManaged)>("cuMemAllocManaged");
  CUdeviceptr at = 0;
  // PyTorch does not check the result of an allocator.
  if (allocate(&at, static_cast<std::size_t>(bytes), CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS) std::abort();
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(at));
}

extern "C" __attribute__((visibility("default"))) void managed_free(void* at, ssize_t, int, void*) {
  static auto* const give_back = find<decltype(cuMemFree)>("cuMemFree_v2");
  give_back(reinterpret_cast<CUdeviceptr>(at));
}
