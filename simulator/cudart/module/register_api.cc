// SPDX-License-Identifier: Apache-2.0
// Functions that nvcc's generated host code calls (declared in crt/host_runtime.h of CUDA 13.0): registration before
// main(), and the two halves of `kernel<<<grid, block, shared, stream>>>(...)`.
#include <array>
#include <cstdio>
#include <type_traits>

#include "simulator/cudart/module/launch.h"
#include "simulator/cudart/module/registry.h"
#include "simulator/cudart/session.h"

namespace simulator::cudart {
namespace {

FatBinary* binary_of(void** handle) { return reinterpret_cast<FatBinary*>(handle); }

struct Configuration {
  dim3 grid;
  dim3 block;
  size_t shared;
  cudaStream_t stream;
};

// A launch may occur in the argument list of another one, so these are nested. Without a destructor: handlers at exit
// launch, too, when the thread's own objects are gone.
struct Configurations {
  std::array<Configuration, 32> stack;
  unsigned count;
};
thread_local constinit Configurations configurations{};
static_assert(std::is_trivially_destructible_v<Configurations>);

// The reason why this thread's last __cudaGetKernel failed: the stub then launches its null kernel, which reports it.
thread_local constinit cudaError_t why_no_kernel = cudaErrorInvalidDeviceFunction;

cudaError_t launch(Rule rule, cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                   cudaStream_t stream) {
  return api(rule, [&](const Driver& table) {
    if (kernel == nullptr) return why_no_kernel;
    return launch_kernel(table, kernel, {grid, block, shared, stream}, arguments);
  });
}

}  // namespace
}  // namespace simulator::cudart

using namespace simulator::cudart;

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) { return reinterpret_cast<void**>(register_binary(wrapper)); }

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle) {
  if (handle != nullptr) unregister_binary(binary_of(handle));
}

void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  register_function(binary_of(handle), host, name);
}

void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t, int, int) {
  register_variable(binary_of(handle), host, name);
}

void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int, size_t, int, int) {
  register_managed(binary_of(handle), host, name);
}

void __cudaRegisterHostVar(void**, const char* name, char*, size_t) {
  std::fprintf(stderr, "cudart: host variable %s: device code can not use host variables on the simulated runtime\n",
               name);
}

char __cudaRegisterUnifiedTable(void**, void*) {
  static_cast<void>(not_carried("__cudaRegisterUnifiedTable", "device code can not call functions of the host"));
  return 0;
}

char __cudaInitModule(void** handle) {
  return api([&](const Driver&) { return load_binary(binary_of(handle)); }) == cudaSuccess ? 1 : 0;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  const cudaError_t status = api([&](const Driver&) { return find_kernel(function, kernel); });
  if (status != cudaSuccess) why_no_kernel = status;
  return status;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream) {
  return launch(Rule::kLegacy, kernel, grid, block, arguments, shared, stream);
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                                    cudaStream_t stream) {
  return launch(Rule::kPerThread, kernel, grid, block, arguments, shared, stream);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st* stream) {
  if (configurations.count == configurations.stack.size()) return 1;  // the caller does not launch then
  configurations.stack[configurations.count++] = {grid, block, shared, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations.count == 0) return record(cudaErrorMissingConfiguration);
  const Configuration top = configurations.stack[--configurations.count];
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

}  // extern "C"
