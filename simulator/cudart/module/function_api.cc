// SPDX-License-Identifier: Apache-2.0
// Queries about a kernel: attributes, name, parameters, occupancy.
#include <type_traits>

#include "simulator/cudart/module/registry.h"
#include "simulator/cudart/session.h"

namespace simulator::cudart {
namespace {

template <typename Body>
cudaError_t with_function(const void* host, Body body) {
  return api([&](const Driver& table) {
    CUfunction function = nullptr;
    const cudaError_t status = find_function(host, &function);
    return status == cudaSuccess ? body(table, function) : status;
  });
}

cudaError_t attributes_of(const Driver& table, CUfunction function, cudaFuncAttributes* attributes) {
  *attributes = {};
  cudaError_t status = cudaSuccess;
  const auto read = [&](auto* field, CUfunction_attribute attribute) {
    int value = 0;
    if (status == cudaSuccess) status = CUDART_CALL(table, cuFuncGetAttribute, &value, attribute, function);
    *field = static_cast<std::remove_pointer_t<decltype(field)>>(value);
  };
  read(&attributes->sharedSizeBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  read(&attributes->constSizeBytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
  read(&attributes->localSizeBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  read(&attributes->maxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  read(&attributes->numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS);
  read(&attributes->ptxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION);
  read(&attributes->binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  read(&attributes->cacheModeCA, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
  read(&attributes->maxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  read(&attributes->preferredShmemCarveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  return status;
}

cudaError_t occupancy(int* blocks, const void* host, int threads, size_t shared, unsigned flags) {
  return with_function(host, [&](const Driver& table, CUfunction function) {
    return CUDART_CALL(table, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, blocks, function, threads, shared,
                       flags);
  });
}

CUlaunchConfig converted(const cudaLaunchConfig_t& config) {
  return {config.gridDim.x,
          config.gridDim.y,
          config.gridDim.z,
          config.blockDim.x,
          config.blockDim.y,
          config.blockDim.z,
          static_cast<unsigned>(config.dynamicSmemBytes),
          config.stream,
          reinterpret_cast<CUlaunchAttribute*>(config.attrs),
          config.numAttrs};
}

}  // namespace
}  // namespace simulator::cudart

using namespace simulator::cudart;

extern "C" {

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* host) {
  if (attributes == nullptr) return record(cudaErrorInvalidValue);
  return with_function(
      host, [&](const Driver& table, CUfunction function) { return attributes_of(table, function, attributes); });
}

cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute attribute, int value) {
  return with_function(host, [&](const Driver& table, CUfunction function) {
    return CUDART_CALL(table, cuFuncSetAttribute, function, static_cast<CUfunction_attribute>(attribute), value);
  });
}

cudaError_t cudaFuncSetCacheConfig(const void* host, cudaFuncCache config) {
  return with_function(host, [&](const Driver& table, CUfunction function) {
    return CUDART_CALL(table, cuFuncSetCacheConfig, function, static_cast<CUfunc_cache>(config));
  });
}

cudaError_t cudaFuncGetName(const char** name, const void* host) {
  return with_function(host, [&](const Driver& table, CUfunction function) {
    return CUDART_CALL(table, cuFuncGetName, name, function);
  });
}

cudaError_t cudaFuncGetParamInfo(const void* host, size_t index, size_t* offset, size_t* bytes) {
  return with_function(host, [&](const Driver& table, CUfunction function) {
    return CUDART_CALL(table, cuFuncGetParamInfo, function, index, offset, bytes);
  });
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* host) {
  if (function == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver&) { return find_function(host, function); });
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  if (kernel == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver&) { return find_kernel(host, kernel); });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host, int threads, size_t shared) {
  return occupancy(blocks, host, threads, shared, cudaOccupancyDefault);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* host, int threads,
                                                                   size_t shared, unsigned flags) {
  return occupancy(blocks, host, threads, shared, flags);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* shared, const void* host, int blocks, int threads) {
  return with_function(host, [&](const Driver& table, CUfunction function) {
    return CUDART_CALL(table, cuOccupancyAvailableDynamicSMemPerBlock, shared, function, blocks, threads);
  });
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* host, const cudaLaunchConfig_t* config) {
  if (config == nullptr) return record(cudaErrorInvalidValue);
  return with_function(host, [&](const Driver& table, CUfunction function) {
    const CUlaunchConfig shape = converted(*config);
    return CUDART_CALL(table, cuOccupancyMaxPotentialClusterSize, size, function, &shape);
  });
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* host, const cudaLaunchConfig_t* config) {
  if (config == nullptr) return record(cudaErrorInvalidValue);
  return with_function(host, [&](const Driver& table, CUfunction function) {
    const CUlaunchConfig shape = converted(*config);
    return CUDART_CALL(table, cuOccupancyMaxActiveClusters, clusters, function, &shape);
  });
}

}  // extern "C"
