// SPDX-License-Identifier: Apache-2.0
// Launches: makes an operation in a stream from the program's parameters.
#include "simulator/cuda/module/launch.h"

#include <cstring>

#include "simulator/core/execution/digests_of_tags.h"
#include "simulator/cuda/context/context.h"
#include "simulator/cuda/context/device_attributes.h"
#include "simulator/cuda/graph/capture.h"
#include "simulator/cuda/memory/nvtx_ranges.h"
#include "simulator/cuda/memory/pool_cache.h"
#include "simulator/cuda/module/function.h"
#include "simulator/cuda/module/host_implementation.h"
#include "simulator/cuda/module/module.h"
#include "simulator/cuda/module/ptx.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

CUresult check_shape(const Profile& profile, const CUfunc_st& function, const Launch& launch) {
  const Dim3 &grid = launch.grid, &block = launch.block;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535) return CUDA_ERROR_INVALID_VALUE;
  if (block.x > kThreadsPerBlock || block.y > kThreadsPerBlock || block.z > 64) return CUDA_ERROR_INVALID_VALUE;
  const int most = function_attribute(profile, function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  if (block.x * block.y * block.z > static_cast<unsigned>(most)) return CUDA_ERROR_INVALID_VALUE;
  const int shared = function_attribute(profile, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  return launch.shared_bytes > static_cast<unsigned>(shared) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

bool is_given(Dim3 cluster) { return cluster.x != 0 || cluster.y != 0 || cluster.z != 0; }

// `own`: the shape that the kernel's code names, or zeros. A cluster has at most 16 blocks, and a grid has whole
// clusters.
CUresult check_cluster(const Launch& launch, Dim3 own) {
  constexpr std::uint64_t kMostBlocks = 16;
  const Dim3 given = launch.cluster;
  if (is_given(given) && is_given(own) && (given.x != own.x || given.y != own.y || given.z != own.z))
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  const Dim3 cluster = is_given(given) ? given : own;
  if (!is_given(cluster)) return CUDA_SUCCESS;
  if (cluster.x == 0 || cluster.y == 0 || cluster.z == 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  if (std::uint64_t{cluster.x} * cluster.y * cluster.z > kMostBlocks) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  const bool is_whole =
      launch.grid.x % cluster.x == 0 && launch.grid.y % cluster.y == 0 && launch.grid.z % cluster.z == 0;
  return is_whole ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

// CU_LAUNCH_PARAM_BUFFER_POINTER and its size, up to CU_LAUNCH_PARAM_END.
CUresult copy_packed(void** extra, std::vector<std::byte>* block) {
  const void* from = nullptr;
  const std::size_t* bytes = nullptr;
  for (std::size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      from = extra[i + 1];
    } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      bytes = static_cast<const std::size_t*>(extra[i + 1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  // Programs omit the padding after the last parameter, and may pass more than there is.
  if (block->empty()) return CUDA_SUCCESS;
  if (from == nullptr || bytes == nullptr || *bytes < block->size()) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(block->data(), from, block->size());
  return CUDA_SUCCESS;
}

CUresult copy_parameters(const ImageKernel& kernel, const Launch& launch, std::vector<std::byte>* block) {
  block->resize(kernel.parameter_bytes);
  if (launch.extra != nullptr)
    return launch.parameters != nullptr ? CUDA_ERROR_INVALID_VALUE : copy_packed(launch.extra, block);
  if (launch.parameters == nullptr) return kernel.parameters.empty() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    if (launch.parameters[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(block->data() + kernel.parameters[i].offset, launch.parameters[i], kernel.parameters[i].size);
  }
  return CUDA_SUCCESS;
}

// The context's heap for malloc, created when the first kernel needs it.
CUresult lend_heap(Call& call, Kernel* kernel) {
  if (!kernel->real->needs_heap()) return CUDA_SUCCESS;
  CUctx_st& context = *call.context();
  if (context.heap == 0) {
    const Bytes bytes = round_up(context_limit(context, CU_LIMIT_MALLOC_HEAP_SIZE), kPageBytes);
    const CUresult result =
        with_room(call, [&] { return call.machine().allocate(bytes, false, &context.heap, call.device()); });
    if (result != CUDA_SUCCESS) return result;
    context.heap_bytes = bytes;
    static std::uint64_t generations = 0;  // of the process: outlives all contexts
    context.heap_generation = ++generations;
  }
  kernel->heap = context.heap;
  kernel->heap_bytes = context.heap_bytes;
  kernel->heap_generation = context.heap_generation;
  return CUDA_SUCCESS;
}

KernelFunction host_implementation(CUfunc_st& function) {
  if (!function.is_resolved) {
    function.function = find_host_implementation(function.kernel.name);
    function.is_resolved = true;
  }
  return function.function;
}

CUresult submit(Call& call, const void* handle, const Launch& launch) {
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(launch.stream, &id); result != CUDA_SUCCESS) return result;
  // Copies may be submitted to a stream of another device, kernels may not (CUDA Programming Guide, "Stream and event
  // behavior" of multi-device systems).
  if (call.machine().device_of(id) != call.device()) return CUDA_ERROR_INVALID_HANDLE;
  Kernel kernel;
  CUfunction function = nullptr;
  if (const CUresult result = make_kernel(call, handle, launch, &kernel, &function); result != CUDA_SUCCESS)
    return result;
  if (function->module->device != call.device()) return CUDA_ERROR_INVALID_HANDLE;
  kernel.declared = declared_accesses();
  if (!kernel.declared && call.machine().tagged()) kernel.declared = accesses_of_digests(kernel);
  return cuda::submit(call, id, std::move(kernel), function);
}

bool is_cooperative(const CUlaunchConfig& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && config.attrs[i].value.cooperative != 0) return true;
  }
  return false;
}

Dim3 cluster_of(const CUlaunchConfig& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const auto& cluster = config.attrs[i].value.clusterDim;
    if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) return {cluster.x, cluster.y, cluster.z};
  }
  return {0, 0, 0};
}

// Events that a launch records. Here they complete after the launch, which is later than necessary and so allowed.
// Other attributes are hints.
CUresult record_events(Call& call, const CUlaunchConfig& config) {
  StreamId id = 0;
  if (const CUresult result = call.find(config.hStream, &id); result != CUDA_SUCCESS) return result;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    CUevent event = nullptr;
    if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
      event = config.attrs[i].value.programmaticEvent.event;
    if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
      event = config.attrs[i].value.launchCompletionEvent.event;
    if (event == nullptr) continue;
    if (!call.state().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
    if (Captured* const recording = captured(call.state(), id)) {
      if (const CUresult result = record_captured(call, event, *recording, false); result != CUDA_SUCCESS)
        return result;
      continue;
    }
    event->captured = {};
    call.machine().record_event(event->id, id);
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult simulator::cuda::make_kernel(Call& call, const void* handle, const Launch& launch, Kernel* out,
                                      CUfunction* found) {
  const CUfunction function = find_function(call, handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult result = check_shape(call.machine().profile(), *function, launch); result != CUDA_SUCCESS)
    return result;
  if (const CUresult result = copy_parameters(function->kernel, launch, &out->block_of_parameters);
      result != CUDA_SUCCESS)
    return result;
  if (const CUresult result = load_function(call, function); result != CUDA_SUCCESS) return result;
  out->name = function->kernel.name;
  out->grid = launch.grid;
  out->block = launch.block;
  out->shared_bytes = launch.shared_bytes;
  for (const ImageParameter& parameter : function->kernel.parameters)
    out->parameters.push_back({parameter.offset, parameter.size});
  out->counted = function->counted;
  out->is_cooperative = launch.is_cooperative;
  out->function = host_implementation(*function);
  if (out->function == nullptr && !call.machine().mixes_kernels()) {
    const CodeLimits limits{call.machine().kernel_steps(), call.machine().cores()};
    if (const CUresult result = find_code(*function, limits); result != CUDA_SUCCESS) return result;
    out->real = function->real;
    const auto own = out->real->cluster();
    if (const CUresult result = check_cluster(launch, {own[0], own[1], own[2]}); result != CUDA_SUCCESS) return result;
    out->cluster = launch.cluster;
    if (const CUresult result = lend_heap(call, out); result != CUDA_SUCCESS) return result;
  }
  *found = function;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                      CUstream stream, void** parameters, void** extra) {
  Call call;
  return submit(call, function,
                {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, parameters, extra});
}

SIMULATED_API CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                                 unsigned block_x, unsigned block_y, unsigned block_z,
                                                 unsigned shared_bytes, CUstream stream, void** parameters) {
  Call call;
  return submit(
      call, function,
      {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, parameters, nullptr, true});
}

SIMULATED_API CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                                        void** extra) {
  Call call;
  if (!call) return call.result();
  if (config == nullptr || (config->attrs == nullptr && config->numAttrs != 0)) return CUDA_ERROR_INVALID_VALUE;
  const Launch launch{{config->gridDimX, config->gridDimY, config->gridDimZ},
                      {config->blockDimX, config->blockDimY, config->blockDimZ},
                      config->sharedMemBytes,
                      config->hStream,
                      parameters,
                      extra,
                      is_cooperative(*config),
                      cluster_of(*config)};
  if (const CUresult result = submit(call, function, launch); result != CUDA_SUCCESS) return result;
  return record_events(call, *config);
}
