// SPDX-License-Identifier: Apache-2.0
// The driver functions that the test programs call, found by the API path that a program is told to use: linked, by
// dlsym, or by cuGetProcAddress. What the program does with them is the same for every API path.
#pragma once

#include <cuda.h>

#include <string>

#define PROGRAM_CUDA_FUNCTIONS(X) \
  X(cuInit)                       \
  X(cuDeviceGet)                  \
  X(cuDevicePrimaryCtxRetain)     \
  X(cuDevicePrimaryCtxRelease)    \
  X(cuCtxSetCurrent)              \
  X(cuCtxSynchronize)             \
  X(cuModuleLoadData)             \
  X(cuModuleGetFunction)          \
  X(cuModuleUnload)               \
  X(cuMemAlloc)                   \
  X(cuMemAllocPitch)              \
  X(cuMemAllocAsync)              \
  X(cuMemAllocFromPoolAsync)      \
  X(cuMemFree)                    \
  X(cuMemFreeAsync)               \
  X(cuMemPoolCreate)              \
  X(cuMemPoolDestroy)             \
  X(cuMemAllocHost)               \
  X(cuMemFreeHost)                \
  X(cuMemcpy)                     \
  X(cuMemcpyHtoD)                 \
  X(cuMemcpyDtoH)                 \
  X(cuMemcpyDtoD)                 \
  X(cuMemcpyHtoDAsync)            \
  X(cuMemcpyDtoHAsync)            \
  X(cuMemcpyDtoDAsync)            \
  X(cuMemcpyAsync)                \
  X(cuMemcpy2D)                   \
  X(cuMemcpy2DAsync)              \
  X(cuMemcpy3D)                   \
  X(cuMemsetD8)                   \
  X(cuMemsetD16)                  \
  X(cuMemsetD32)                  \
  X(cuMemsetD32Async)             \
  X(cuMemsetD2D8)                 \
  X(cuLaunchKernel)               \
  X(cuLaunchKernelEx)             \
  X(cuStreamCreate)               \
  X(cuStreamSynchronize)          \
  X(cuStreamQuery)                \
  X(cuStreamDestroy)              \
  X(cuStreamWaitEvent)            \
  X(cuEventCreate)                \
  X(cuEventRecord)                \
  X(cuEventDestroy)

namespace program {

struct Cuda {
#define PROGRAM_MEMBER(name) decltype(&::name) name = nullptr;
  PROGRAM_CUDA_FUNCTIONS(PROGRAM_MEMBER)
#undef PROGRAM_MEMBER
};

// API path: link, dlsym, dlvsym (dlsym through the version that old binaries request), default (RTLD_DEFAULT), proc,
// proc-11 (the four-argument cuGetProcAddress), proc-per-thread, proc-per-thread-by-default. Ends the program with
// status 2 if there is no such API path or a function is not found.
Cuda find_cuda(const std::string& api_path);

// Ends the program with status 2 and a line that says what failed.
void check(CUresult result, const char* call);
#define CHECK(call) ::program::check(call, #call)

}  // namespace program
