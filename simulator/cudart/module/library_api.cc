// SPDX-License-Identifier: Apache-2.0
// Code that a program loads itself (cudaLibrary*), and driver functions by name.
#include "simulator/cudart/convert.h"
#include "simulator/cudart/module/registry.h"
#include "simulator/cudart/same.h"

namespace simulator::cudart {
namespace {

// cudaEnableDefault means the default stream for which the caller was compiled; the other two are the driver's flags.
cudaError_t entry_point(Rule rule, const char* symbol, void** function, unsigned version, unsigned long long flags,
                        cudaDriverEntryPointQueryResult* result) {
  if (symbol == nullptr || function == nullptr) return record(cudaErrorInvalidValue);
  const cudaError_t loaded = load_driver();
  if (loaded != cudaSuccess) return record(loaded);
  if (flags == cudaEnableDefault && rule == Rule::kPerThread) flags = cudaEnablePerThreadDefaultStream;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  *function = nullptr;
  const CUresult status = driver().cuGetProcAddress(symbol, function, static_cast<int>(version), flags, &found);
  if (result != nullptr) *result = static_cast<cudaDriverEntryPointQueryResult>(found);
  // A name that is not found is a result if the caller passed a pointer for it, and an error otherwise.
  if (status == CUDA_ERROR_NOT_FOUND || found != CU_GET_PROC_ADDRESS_SUCCESS) {
    return result == nullptr ? record(cudaErrorSymbolNotFound) : cudaSuccess;
  }
  return record(from_driver(status));
}

cudaError_t entry_point_now(Rule rule, const char* symbol, void** function, unsigned long long flags,
                            cudaDriverEntryPointQueryResult* result) {
  return entry_point(rule, symbol, function, CUDART_VERSION, flags, result);
}

}  // namespace
}  // namespace simulator::cudart

using namespace simulator::cudart;

CUDART_BOTH(cudaGetDriverEntryPointByVersion, _ptsz, entry_point,
            (const char* symbol, void** function, unsigned version, unsigned long long flags,
             cudaDriverEntryPointQueryResult* result),
            (symbol, function, version, flags, result))
CUDART_BOTH(cudaGetDriverEntryPoint, _ptsz, entry_point_now,
            (const char* symbol, void** function, unsigned long long flags, cudaDriverEntryPointQueryResult* result),
            (symbol, function, flags, result))

extern "C" {

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption* jit, void** jit_values,
                                unsigned jit_count, cudaLibraryOption* options, void** values, unsigned count) {
  return api([&](const Driver& table) {
    return CUDART_CALL(table, cuLibraryLoadData, library, code, reinterpret_cast<CUjit_option*>(jit), jit_values,
                       jit_count, reinterpret_cast<CUlibraryOption*>(options), values, count);
  });
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path, cudaJitOption* jit, void** jit_values,
                                    unsigned jit_count, cudaLibraryOption* options, void** values, unsigned count) {
  return api([&](const Driver& table) {
    return CUDART_CALL(table, cuLibraryLoadFromFile, library, path, reinterpret_cast<CUjit_option*>(jit), jit_values,
                       jit_count, reinterpret_cast<CUlibraryOption*>(options), values, count);
  });
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuLibraryUnload, library); });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  if (kernel == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    const cudaError_t status = CUDART_CALL(table, cuLibraryGetKernel, kernel, library, name);
    if (status == cudaSuccess) remember_kernel(*kernel);
    return status;
  });
}

cudaError_t cudaLibraryGetKernelCount(unsigned* count, cudaLibrary_t library) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuLibraryGetKernelCount, count, library); });
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned count, cudaLibrary_t library) {
  return api([&](const Driver& table) {
    unsigned present = 0;
    cudaError_t status = CUDART_CALL(table, cuLibraryGetKernelCount, &present, library);
    if (status == cudaSuccess) status = CUDART_CALL(table, cuLibraryEnumerateKernels, kernels, count, library);
    for (unsigned i = 0; status == cudaSuccess && i < count && i < present; ++i) remember_kernel(kernels[i]);
    return status;
  });
}

cudaError_t cudaLibraryGetGlobal(void** pointer, size_t* bytes, cudaLibrary_t library, const char* name) {
  return api([&](const Driver& table) {
    return CUDART_CALL(table, cuLibraryGetGlobal, address_out(pointer), bytes, library, name);
  });
}

cudaError_t cudaLibraryGetManaged(void** pointer, size_t* bytes, cudaLibrary_t library, const char* name) {
  return api([&](const Driver& table) {
    return CUDART_CALL(table, cuLibraryGetManaged, address_out(pointer), bytes, library, name);
  });
}

}  // extern "C"

CUDART_SAME(cudaKernelSetAttributeForDevice, cuKernelSetAttribute,
            (cudaKernel_t kernel, cudaFuncAttribute attribute, int value, int device),
            static_cast<CUfunction_attribute>(attribute), value, kernel, device)
CUDART_SAME(cudaLibraryGetUnifiedFunction, cuLibraryGetUnifiedFunction,
            (void** function, cudaLibrary_t library, const char* name), function, as_driver<CUlibrary>(library), name)
