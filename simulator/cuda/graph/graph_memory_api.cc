// SPDX-License-Identifier: Apache-2.0
// Queries about the memory that a device holds for graphs, and returning the unused part of it.
#include "simulator/cuda/graph/graph_memory.h"

using namespace simulator;
using namespace simulator::cuda;

SIMULATED_API CUresult cuDeviceGraphMemTrim(CUdevice device) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (!call.has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  trim_graph_memory(call, static_cast<DeviceId>(device));
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (!call.has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const State::OfDevice& of = call.state().devices[static_cast<std::size_t>(device)];
  auto& out = *static_cast<cuuint64_t*>(value);
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      out = graph_bytes(call.state(), static_cast<DeviceId>(device), true);
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      out = of.graph_used_peak;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      out = graph_bytes(call.state(), static_cast<DeviceId>(device), false);
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      out = of.graph_reserved_peak;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// High water marks may only be set to zero, which resets them to the present value.
SIMULATED_API CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (!call.has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr || *static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
  State::OfDevice& of = call.state().devices[static_cast<std::size_t>(device)];
  if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) {
    of.graph_used_peak = graph_bytes(call.state(), static_cast<DeviceId>(device), true);
  } else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) {
    of.graph_reserved_peak = graph_bytes(call.state(), static_cast<DeviceId>(device), false);
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
