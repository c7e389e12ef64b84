// SPDX-License-Identifier: Apache-2.0
#include "simulator/cudart/graph/graph_params.h"

#include "simulator/cudart/convert.h"
#include "simulator/cudart/module/registry.h"
#include "simulator/cudart/session.h"

namespace simulator::cudart {
namespace {

// Kernel parameters of both forms of nodes have the same fields.
template <typename Given, typename Out>
cudaError_t kernel_to_driver(const Given& given, Out* out) {
  CUfunction function = nullptr;
  if (const cudaError_t status = find_function(given.func, &function); status != cudaSuccess) return status;
  *out = {};
  out->func = function;
  out->gridDimX = given.gridDim.x;
  out->gridDimY = given.gridDim.y;
  out->gridDimZ = given.gridDim.z;
  out->blockDimX = given.blockDim.x;
  out->blockDimY = given.blockDim.y;
  out->blockDimZ = given.blockDim.z;
  out->sharedMemBytes = given.sharedMemBytes;
  out->kernelParams = given.kernelParams;
  out->extra = given.extra;
  return cudaSuccess;
}

cudaError_t copy_to_driver(const Driver& table, const cudaMemcpyNodeParams& given, CUDA_MEMCPY_NODE_PARAMS* out) {
  *out = {};
  out->flags = given.flags;
  const cudaError_t status = context_of_nodes(&out->copyCtx);
  return status == cudaSuccess ? to_driver(table, given.copyParams, &out->copyParams) : status;
}

cudaError_t set_to_driver(const cudaMemsetParamsV2& given, CUDA_MEMSET_NODE_PARAMS_v2* out) {
  *out = {address(given.dst), given.pitch, given.value, given.elementSize, given.width, given.height, nullptr};
  return context_of_nodes(&out->ctx);
}

cudaError_t condition_to_driver(const cudaConditionalNodeParams& given, CUDA_CONDITIONAL_NODE_PARAMS* out) {
  *out = {};
  out->handle = given.handle;
  out->type = static_cast<CUgraphConditionalNodeType>(given.type);
  out->size = given.size;
  return context_of_nodes(&out->ctx);
}

cudaError_t part_of(const void* symbol, size_t bytes, size_t offset, void** begin) {
  CUdeviceptr base = 0;
  size_t size = 0;
  if (const cudaError_t status = find_variable(symbol, &base, &size); status != cudaSuccess) return status;
  if (offset > size || bytes > size - offset) return cudaErrorInvalidValue;
  *begin = reinterpret_cast<void*>(base + offset);
  return cudaSuccess;
}

}  // namespace

cudaError_t context_of_nodes(CUcontext* context) { return primary_context(current_device(), context); }

cudaError_t to_driver(const cudaKernelNodeParams& params, CUDA_KERNEL_NODE_PARAMS* out) {
  return kernel_to_driver(params, out);
}

cudaKernelNodeParams from_driver(const CUDA_KERNEL_NODE_PARAMS& params) {
  cudaKernelNodeParams out = {};
  out.func = host_function(params.func);
  out.gridDim = {params.gridDimX, params.gridDimY, params.gridDimZ};
  out.blockDim = {params.blockDimX, params.blockDimY, params.blockDimZ};
  out.sharedMemBytes = params.sharedMemBytes;
  out.kernelParams = params.kernelParams;
  out.extra = params.extra;
  return out;
}

cudaError_t copy_into_variable(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind,
                               CUDA_MEMCPY3D* out) {
  void* to = nullptr;
  const cudaError_t status = part_of(symbol, bytes, offset, &to);
  if (status == cudaSuccess) *out = row_of(to, from, bytes, kind);
  return status;
}

cudaError_t copy_from_variable(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                               CUDA_MEMCPY3D* out) {
  void* from = nullptr;
  const cudaError_t status = part_of(symbol, bytes, offset, &from);
  if (status == cudaSuccess) *out = row_of(to, from, bytes, kind);
  return status;
}

cudaError_t to_driver(const Driver& table, const cudaGraphNodeParams& params, CUgraphNodeParams* out) {
  *out = {};
  out->type = static_cast<CUgraphNodeType>(params.type);
  switch (params.type) {
    case cudaGraphNodeTypeKernel:
      return kernel_to_driver(params.kernel, &out->kernel);
    case cudaGraphNodeTypeMemcpy:
      return copy_to_driver(table, params.memcpy, &out->memcpy);
    case cudaGraphNodeTypeMemset:
      return set_to_driver(params.memset, &out->memset);
    case cudaGraphNodeTypeHost:
      out->host = {params.host.fn, params.host.userData};
      return cudaSuccess;
    case cudaGraphNodeTypeGraph:
      out->graph = {params.graph.graph, static_cast<CUgraphChildGraphNodeOwnership>(params.graph.ownership)};
      return cudaSuccess;
    case cudaGraphNodeTypeEmpty:
      return cudaSuccess;
    case cudaGraphNodeTypeWaitEvent:
      out->eventWait = {params.eventWait.event};
      return cudaSuccess;
    case cudaGraphNodeTypeEventRecord:
      out->eventRecord = {params.eventRecord.event};
      return cudaSuccess;
    case cudaGraphNodeTypeMemAlloc:
      static_assert(sizeof(out->alloc) == sizeof(params.alloc));
      out->alloc = reinterpret_cast<const CUDA_MEM_ALLOC_NODE_PARAMS_v2&>(params.alloc);
      return cudaSuccess;
    case cudaGraphNodeTypeMemFree:
      out->free = {address(params.free.dptr)};
      return cudaSuccess;
    case cudaGraphNodeTypeConditional:
      return condition_to_driver(params.conditional, &out->conditional);
    default:
      return cudaErrorNotSupported;  // external semaphores
  }
}

void take_results(const CUgraphNodeParams& given, cudaGraphNodeParams* params) {
  if (params->type == cudaGraphNodeTypeMemAlloc) params->alloc.dptr = reinterpret_cast<void*>(given.alloc.dptr);
  if (params->type == cudaGraphNodeTypeConditional)
    params->conditional.phGraph_out = reinterpret_cast<cudaGraph_t*>(given.conditional.phGraph_out);
}

}  // namespace simulator::cudart
