// SPDX-License-Identifier: Apache-2.0
// The work of nodes, from the structures with which programs describe it. The calls that queue the same work in a
// stream check it.
#include "simulator/cuda/graph/graph_conditions.h"
#include "simulator/cuda/graph/graph_memory.h"
#include "simulator/cuda/memory/transfer.h"
#include "simulator/cuda/module/launch.h"
#include "simulator/cuda/stream/stream_values.h"

namespace simulator::cuda {
namespace {

// The node parameters for a copy that was submitted to a capturing stream.
CUDA_MEMCPY3D describe(const Copy& copy) {
  CUDA_MEMCPY3D out{};
  const bool from_host = copy.direction == Direction::kToDevice || copy.direction == Direction::kOnHost;
  const bool to_host = copy.direction == Direction::kToHost || copy.direction == Direction::kOnHost;
  out.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  out.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  if (from_host) {
    out.srcHost = reinterpret_cast<const void*>(copy.from);
  } else {
    out.srcDevice = copy.from;
  }
  if (to_host) {
    out.dstHost = reinterpret_cast<void*>(copy.to);
  } else {
    out.dstDevice = copy.to;
  }
  const auto rows = [](const Shape& shape) {
    return shape.depth > 1 && shape.row_pitch != 0 ? shape.slice_pitch / shape.row_pitch : shape.height;
  };
  out.srcPitch = copy.from_shape.row_pitch;
  out.srcHeight = rows(copy.from_shape);
  out.dstPitch = copy.to_shape.row_pitch;
  out.dstHeight = rows(copy.to_shape);
  out.WidthInBytes = copy.to_shape.width;
  out.Height = copy.to_shape.height;
  out.Depth = copy.to_shape.depth;
  return out;
}

CUDA_MEMSET_NODE_PARAMS describe(const Set& set) {
  CUDA_MEMSET_NODE_PARAMS out{};
  out.dst = set.to;
  out.pitch = set.shape.row_pitch;
  out.value = static_cast<unsigned>(set.value);
  out.elementSize = set.element;
  out.width = set.shape.width / set.element;
  out.height = set.shape.height;
  return out;
}

}  // namespace

CUresult make_kernel_node(Call& call, const CUDA_KERNEL_NODE_PARAMS_v2& given, CUgraphNode_st* out) {
  const void* const handle =
      given.func != nullptr ? static_cast<const void*>(given.func) : static_cast<const void*>(given.kern);
  Launch launch{{given.gridDimX, given.gridDimY, given.gridDimZ},
                {given.blockDimX, given.blockDimY, given.blockDimZ},
                given.sharedMemBytes,
                nullptr,
                given.kernelParams,
                given.extra};
  Kernel kernel;
  if (const CUresult result = make_kernel(call, handle, launch, &kernel, &out->function); result != CUDA_SUCCESS)
    return result;
  out->type = CU_GRAPH_NODE_TYPE_KERNEL;
  out->device = out->function->module->device;
  out->work = std::move(kernel);
  return CUDA_SUCCESS;
}

CUresult make_copy_node(Call& call, const CUDA_MEMCPY3D& given, CUgraphNode_st* out) {
  out->type = CU_GRAPH_NODE_TYPE_MEMCPY;
  out->device = call.device();
  out->copy = given;
  if (given.WidthInBytes == 0 || given.Height == 0 || given.Depth == 0) return CUDA_ERROR_INVALID_VALUE;
  End to, from;
  if (const CUresult result = ends_of(given, &to, &from); result != CUDA_SUCCESS) return result;
  Copy copy;
  if (const CUresult result = make_copy(call.machine(), to, from, &copy); result != CUDA_SUCCESS) return result;
  out->work = std::move(copy);
  return CUDA_SUCCESS;
}

CUresult make_set_node(Call& call, const CUDA_MEMSET_NODE_PARAMS& given, CUgraphNode_st* out) {
  out->type = CU_GRAPH_NODE_TYPE_MEMSET;
  out->device = call.device();
  out->set = given;
  if (given.elementSize != 1 && given.elementSize != 2 && given.elementSize != 4) return CUDA_ERROR_INVALID_VALUE;
  Bytes bytes = 0;
  if (given.width == 0 || given.height == 0 || __builtin_mul_overflow(given.width, given.elementSize, &bytes) ||
      (given.height > 1 && given.pitch < bytes))
    return CUDA_ERROR_INVALID_VALUE;
  const Bytes row = given.height > 1 ? given.pitch : bytes;
  Set set;
  if (const CUresult result = make_set(call.machine(), given.dst, {bytes, given.height, 1, row, row * given.height},
                                       given.value, given.elementSize, &set);
      result != CUDA_SUCCESS)
    return result;
  out->work = set;
  return CUDA_SUCCESS;
}

CUresult make_host_node(const CUDA_HOST_NODE_PARAMS& given, CUgraphNode_st* out) {
  if (given.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  out->type = CU_GRAPH_NODE_TYPE_HOST;
  out->host = given;
  out->work = HostFunction{[given] { given.fn(given.userData); }};
  return CUDA_SUCCESS;
}

CUresult make_value_node(Call& call, const CUDA_BATCH_MEM_OP_NODE_PARAMS& given, CUgraphNode_st* out) {
  if (given.ctx != nullptr && !call.state().contexts.has(given.ctx)) return CUDA_ERROR_INVALID_VALUE;
  out->type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  out->device = given.ctx != nullptr ? given.ctx->device : call.device();
  out->values = given;
  const CUresult result = make_value_operations(call, given.count, given.paramArray, given.flags, &out->value_work);
  if (result == CUDA_SUCCESS) out->value_operations.assign(given.paramArray, given.paramArray + given.count);
  return result;
}

CUresult make_event_node(Call& call, CUgraphNodeType type, CUevent event, CUgraphNode_st* out) {
  if (!call.state().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  out->type = type;
  out->event = event;
  return CUDA_SUCCESS;
}

CUresult make_child_node(Call& call, CUgraph graph, CUgraphNode_st* out) {
  if (!call.state().graphs.has(graph)) return CUDA_ERROR_INVALID_VALUE;
  if (has_memory_nodes(*graph) || has_conditional_nodes(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
  out->type = CU_GRAPH_NODE_TYPE_GRAPH;
  out->child = graph;
  return CUDA_SUCCESS;
}

CUresult make_node(Call& call, const CUgraphNodeParams& given, CUgraphNode_st* out) {
  switch (given.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const auto& k = given.kernel;
      return make_kernel_node(call,
                              {k.func, k.gridDimX, k.gridDimY, k.gridDimZ, k.blockDimX, k.blockDimY, k.blockDimZ,
                               k.sharedMemBytes, k.kernelParams, k.extra, k.kern, k.ctx},
                              out);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return make_copy_node(call, given.memcpy.copyParams, out);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const auto& s = given.memset;
      return make_set_node(call, {s.dst, s.pitch, s.value, s.elementSize, s.width, s.height}, out);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      return make_host_node({given.host.fn, given.host.userData}, out);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return make_value_node(call, {given.memOp.ctx, given.memOp.count, given.memOp.paramArray, given.memOp.flags},
                             out);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      if (given.graph.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE) return CUDA_ERROR_NOT_SUPPORTED;
      return make_child_node(call, given.graph.graph, out);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      out->type = CU_GRAPH_NODE_TYPE_EMPTY;
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return make_event_node(call, given.type, given.eventWait.event, out);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return make_event_node(call, given.type, given.eventRecord.event, out);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;  // semaphores; memory and conditions need the node's graph
  }
}

CUgraphNode_st node_of(Work work, CUfunction function) {
  CUgraphNode_st node;
  node.function = function;
  if (const auto* copy = std::get_if<Copy>(&work)) {
    node.type = CU_GRAPH_NODE_TYPE_MEMCPY;
    node.copy = describe(*copy);
  } else if (const auto* set = std::get_if<Set>(&work)) {
    node.type = CU_GRAPH_NODE_TYPE_MEMSET;
    node.set = describe(*set);
  } else if (std::holds_alternative<Kernel>(work)) {
    node.type = CU_GRAPH_NODE_TYPE_KERNEL;
  } else if (std::holds_alternative<HostFunction>(work)) {
    node.type = CU_GRAPH_NODE_TYPE_HOST;
  } else if (std::holds_alternative<WriteValue>(work) || std::holds_alternative<WaitValue>(work)) {
    node.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    node.value_operations.push_back(describe_value_operation(work));
    node.values.count = 1;
    node.value_work.push_back(std::move(work));
    work = Marker{};
  }
  node.work = std::move(work);
  return node;
}

}  // namespace simulator::cuda
