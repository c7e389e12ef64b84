// SPDX-License-Identifier: Apache-2.0
// Launches of kernels and of host functions.
#include "simulator/cudart/module/launch.h"

#include "simulator/cudart/module/registry.h"
#include "simulator/cudart/session.h"

namespace simulator::cudart {
namespace {

// A kernel may be passed as a function (cuda.h, cuLaunchKernel); it then runs in the current context.
CUfunction as_function(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

bool within(const Driver& table, unsigned value, CUdevice_attribute limit) {
  int most = 0;
  if (CUDART_CALL(table, cuDeviceGetAttribute, &most, limit, current_device()) != cudaSuccess) return true;
  return value >= 1 && value <= static_cast<unsigned>(most);
}

cudaError_t explain(const Driver& table, const Shape& shape, cudaError_t status) {
  return status == cudaErrorInvalidValue && !is_valid(table, shape) ? cudaErrorInvalidConfiguration : status;
}

cudaError_t launch_function(Rule rule, const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                            cudaStream_t stream) {
  return api(rule, [&](const Driver& table) {
    CUkernel kernel = nullptr;
    const cudaError_t status = find_kernel(function, &kernel);
    return status == cudaSuccess ? launch_kernel(table, kernel, {grid, block, shared, stream}, arguments) : status;
  });
}

cudaError_t launch_cooperative(Rule rule, const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream) {
  return api(rule, [&](const Driver& table) {
    CUkernel kernel = nullptr;
    if (const cudaError_t status = find_kernel(function, &kernel); status != cudaSuccess) return status;
    const cudaError_t status =
        CUDART_CALL(table, cuLaunchCooperativeKernel, as_function(kernel), grid.x, grid.y, grid.z, block.x, block.y,
                    block.z, static_cast<unsigned>(shared), stream, arguments);
    return explain(table, {grid, block, shared, stream}, status);
  });
}

cudaError_t launch_extended(Rule rule, const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  if (config == nullptr) return record(cudaErrorInvalidValue);
  return api(rule, [&](const Driver& table) {
    CUkernel kernel = nullptr;
    if (const cudaError_t status = find_kernel(function, &kernel); status != cudaSuccess) return status;
    static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute),
                  "both interfaces share the layout of attributes");
    const CUlaunchConfig converted = {config->gridDim.x,
                                      config->gridDim.y,
                                      config->gridDim.z,
                                      config->blockDim.x,
                                      config->blockDim.y,
                                      config->blockDim.z,
                                      static_cast<unsigned>(config->dynamicSmemBytes),
                                      config->stream,
                                      reinterpret_cast<CUlaunchAttribute*>(config->attrs),
                                      config->numAttrs};
    const cudaError_t status =
        CUDART_CALL(table, cuLaunchKernelEx, &converted, as_function(kernel), arguments, nullptr);
    return explain(table, {config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream}, status);
  });
}

cudaError_t launch_host(Rule rule, cudaStream_t stream, cudaHostFn_t function, void* data) {
  return api(rule, [&](const Driver& table) { return CUDART_CALL(table, cuLaunchHostFunc, stream, function, data); });
}

}  // namespace

bool is_valid(const Driver& table, const Shape& shape) {
  return within(table, shape.block.x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) &&
         within(table, shape.block.y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) &&
         within(table, shape.block.z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) &&
         within(table, shape.block.x * shape.block.y * shape.block.z, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK) &&
         within(table, shape.grid.x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) &&
         within(table, shape.grid.y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) &&
         within(table, shape.grid.z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
}

cudaError_t launch_kernel(const Driver& table, CUkernel kernel, const Shape& shape, void** arguments) {
  const cudaError_t status =
      CUDART_CALL(table, cuLaunchKernel, as_function(kernel), shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x,
                  shape.block.y, shape.block.z, static_cast<unsigned>(shape.shared), shape.stream, arguments, nullptr);
  return explain(table, shape, status);
}

}  // namespace simulator::cudart

using namespace simulator::cudart;

CUDART_BOTH(cudaLaunchKernel, _ptsz, launch_function,
            (const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream),
            (function, grid, block, arguments, shared, stream))
CUDART_BOTH(cudaLaunchCooperativeKernel, _ptsz, launch_cooperative,
            (const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream),
            (function, grid, block, arguments, shared, stream))
CUDART_BOTH(cudaLaunchKernelExC, _ptsz, launch_extended,
            (const cudaLaunchConfig_t* config, const void* function, void** arguments), (config, function, arguments))
CUDART_BOTH(cudaLaunchHostFunc, _ptsz, launch_host, (cudaStream_t stream, cudaHostFn_t function, void* data),
            (stream, function, data))
