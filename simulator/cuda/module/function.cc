// SPDX-License-Identifier: Apache-2.0
// Functions and kernels: names, parameters, attributes.
#include "simulator/cuda/module/function.h"

#include "simulator/cuda/context/device_attributes.h"
#include "simulator/cuda/module/module.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

// Queries before there are devices are refused for that reason.
bool is_device(CUdevice device) {
  if (Machine::in_host_function()) return true;
  const auto machine = Machine::enter();
  return !machine->initialized() || (device >= 0 && device < machine->devices());
}

constexpr int kUnknownRegisters = 32;  // for a kernel from PTX: a compiler would choose

CUresult get_attribute(int* value, CUfunction_attribute attribute, const void* handle,
                       const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  const CUfunction function = find_function(call, handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (value == nullptr || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *value = function_attribute(call.machine().profile(), *function, attribute);
  return CUDA_SUCCESS;
}

CUresult set_attribute(CUfunction_attribute attribute, int value, const void* handle,
                       const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  const CUfunction function = find_function(call, handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult result = load_function(call, function); result != CUDA_SUCCESS) return result;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
      const int most = limits_of(call.machine().profile()).shared_per_block_on_request -
                       static_cast<int>(function->kernel.shared_bytes);
      if (value < 0 || value > most) return CUDA_ERROR_INVALID_VALUE;
      break;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      if (value < 0) return CUDA_ERROR_INVALID_VALUE;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;  // the compiler has fixed it
  }
  function->attributes[attribute] = value;
  return CUDA_SUCCESS;
}

CUresult get_parameter(const void* handle, std::size_t index, std::size_t* offset, std::size_t* bytes,
                       const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  const CUfunction function = find_function(call, handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (offset == nullptr || index >= function->kernel.parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = function->kernel.parameters[index].offset;
  if (bytes != nullptr) *bytes = function->kernel.parameters[index].size;
  return CUDA_SUCCESS;
}

CUresult get_name(const char** name, const void* handle, const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  const CUfunction function = find_function(call, handle);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = function->kernel.name.c_str();
  return CUDA_SUCCESS;
}

// For settings that are accepted and have no effect.
CUresult check(const void* handle, const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  return find_function(call, handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

}  // namespace

namespace simulator::cuda {

int function_attribute(const Profile& profile, const CUfunc_st& function, CUfunction_attribute attribute) {
  if (const auto found = function.attributes.find(attribute); found != function.attributes.end()) return found->second;
  const ImageKernel& kernel = function.kernel;
  const int capability = profile.compute_capability.value;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return kernel.max_threads != 0 ? static_cast<int>(kernel.max_threads) : kThreadsPerBlock;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      return static_cast<int>(kernel.shared_bytes);
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return kernel.registers != 0 ? static_cast<int>(kernel.registers) : kUnknownRegisters;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      return function.architecture != 0 ? static_cast<int>(function.architecture) : capability;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      // PTX is compiled for the device on which it is loaded.
      return function.is_ptx || function.architecture == 0 ? capability : static_cast<int>(function.architecture);
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return std::max(kSharedPerBlock - static_cast<int>(kernel.shared_bytes), 0);
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return -1;
    default:
      return 0;
  }
}

}  // namespace simulator::cuda

SIMULATED_API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return get_attribute(value, attribute, function);
}
SIMULATED_API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return set_attribute(attribute, value, function);
}
SIMULATED_API CUresult cuFuncGetParamInfo(CUfunction function, std::size_t index, std::size_t* offset,
                                          std::size_t* bytes) {
  return get_parameter(function, index, offset, bytes);
}
SIMULATED_API CUresult cuFuncGetName(const char** name, CUfunction function) { return get_name(name, function); }
SIMULATED_API CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) { return check(function); }
SIMULATED_API CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig) { return check(function); }
SIMULATED_API CUresult cuFuncLoad(CUfunction handle) {
  Call call;
  if (!call) return call.result();
  const CUfunction function = find_function(call, handle);
  return function == nullptr ? CUDA_ERROR_INVALID_HANDLE : load_function(call, function);
}

SIMULATED_API CUresult cuFuncIsLoaded(CUfunctionLoadingState* loaded, CUfunction handle) {
  if (loaded == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *loaded = CU_FUNCTION_LOADING_STATE_LOADED;
  Call call;
  if (!call) return call.result();
  const CUfunction function = find_function(call, handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const bool is_waiting = call.machine().lazy_loading() != 0 && function->code == 0;
  if (is_waiting) *loaded = CU_FUNCTION_LOADING_STATE_UNLOADED;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuFuncGetModule(CUmodule* out, CUfunction handle) {
  Call call;
  if (!call) return call.result();
  const CUfunction function = find_function(call, handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = function->module;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                                            CUdevice device) {
  return !is_device(device) ? CUDA_ERROR_INVALID_DEVICE : get_attribute(value, attribute, kernel);
}
SIMULATED_API CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                                            CUdevice device) {
  return !is_device(device) ? CUDA_ERROR_INVALID_DEVICE : set_attribute(attribute, value, kernel);
}
SIMULATED_API CUresult cuKernelGetParamInfo(CUkernel kernel, std::size_t index, std::size_t* offset,
                                            std::size_t* bytes) {
  return get_parameter(kernel, index, offset, bytes);
}
SIMULATED_API CUresult cuKernelGetName(const char** name, CUkernel kernel) { return get_name(name, kernel); }
SIMULATED_API CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache, CUdevice device) {
  return !is_device(device) ? CUDA_ERROR_INVALID_DEVICE : check(kernel);
}
