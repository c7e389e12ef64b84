// SPDX-License-Identifier: Apache-2.0
// Nodes of each kind: adding them, reading their parameters, and changing these.
#include "simulator/cuda/graph/graph_conditions.h"
#include "simulator/cuda/graph/graph_memory.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

struct Where {
  CUgraphNode* out = nullptr;
  CUgraph graph = nullptr;
  const CUgraphNode* after = nullptr;
  std::size_t count = 0;
};

// The node that `make` makes is added to the graph, and then passed to `settle`.
template <typename Make, typename Settle>
CUresult add(const Where& where, Make make, Settle settle, const char* caller) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  State& state = call.state();
  if (where.out == nullptr || !state.graphs.has(where.graph) ||
      !are_nodes_of(state, where.graph, where.after, where.count))
    return CUDA_ERROR_INVALID_VALUE;
  CUgraphNode_st made;
  if (const CUresult result = make(call, &made); result != CUDA_SUCCESS) return result;
  CUgraphNode node = add_node(state, where.graph, {}, {where.after, where.count});
  set_contents(state, node, made);
  settle(state, node);
  *where.out = node;
  return CUDA_SUCCESS;
}

template <typename Make>
CUresult add(const Where& where, Make make, const char* caller = __builtin_FUNCTION()) {
  return add(
      where, make, [](State&, CUgraphNode) {}, caller);
}

template <typename Make>
CUresult set(CUgraphNode node, Make make, const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  if (!call.state().graph_nodes.has(node)) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNode_st made;
  if (const CUresult result = make(call, &made); result != CUDA_SUCCESS) return result;
  if (made.type != node->type) return CUDA_ERROR_INVALID_VALUE;
  set_contents(call.state(), node, made);
  return CUDA_SUCCESS;
}

template <typename Value, typename Read>
CUresult get(CUgraphNode node, CUgraphNodeType type, Value* out, Read read, const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  if (out == nullptr || !call.state().graph_nodes.has(node) || node->type != type) return CUDA_ERROR_INVALID_VALUE;
  *out = read(*node);
  return CUDA_SUCCESS;
}

CUDA_KERNEL_NODE_PARAMS_v2 with_kernel(const CUDA_KERNEL_NODE_PARAMS_v1& p) {
  return {p.func,      p.gridDimX,       p.gridDimY,     p.gridDimZ, p.blockDimX, p.blockDimY,
          p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra,    nullptr,     nullptr};
}

CUDA_KERNEL_NODE_PARAMS_v2 kernel_of(CUgraphNode_st& node) {
  const Kernel& kernel = std::get<Kernel>(node.work);
  CUDA_KERNEL_NODE_PARAMS_v2 out{};
  out.func = node.function;
  out.gridDimX = kernel.grid.x;
  out.gridDimY = kernel.grid.y;
  out.gridDimZ = kernel.grid.z;
  out.blockDimX = kernel.block.x;
  out.blockDimY = kernel.block.y;
  out.blockDimZ = kernel.block.z;
  out.sharedMemBytes = kernel.shared_bytes;
  out.kernelParams = node.parameters.data();
  return out;
}

auto kernel_maker(const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return [params](Call& call, CUgraphNode_st* made) {
    return params == nullptr ? CUDA_ERROR_INVALID_VALUE : make_kernel_node(call, *params, made);
  };
}
auto copy_maker(const CUDA_MEMCPY3D* params, CUcontext context = nullptr) {
  return [params, context](Call& call, CUgraphNode_st* made) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = make_copy_node(call, *params, made);
    if (call.state().contexts.has(context)) made->device = context->device;
    return result;
  };
}
auto set_maker(const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context = nullptr) {
  return [params, context](Call& call, CUgraphNode_st* made) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = make_set_node(call, *params, made);
    if (call.state().contexts.has(context)) made->device = context->device;
    return result;
  };
}
auto host_maker(const CUDA_HOST_NODE_PARAMS* params) {
  return [params](Call&, CUgraphNode_st* made) {
    return params == nullptr ? CUDA_ERROR_INVALID_VALUE : make_host_node(*params, made);
  };
}
auto value_maker(const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return [params](Call& call, CUgraphNode_st* made) {
    return params == nullptr ? CUDA_ERROR_INVALID_VALUE : make_value_node(call, *params, made);
  };
}
auto event_maker(CUgraphNodeType type, CUevent event) {
  return [type, event](Call& call, CUgraphNode_st* made) { return make_event_node(call, type, event, made); };
}
auto allocation_maker(CUgraph graph, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return [graph, params](Call& call, CUgraphNode_st* made) {
    return params == nullptr ? CUDA_ERROR_INVALID_VALUE : make_allocation_node(call, graph, params, made);
  };
}
auto free_maker(CUgraph graph, CUdeviceptr at) {
  return [graph, at](Call& call, CUgraphNode_st* made) { return make_free_node(call, graph, at, made); };
}
auto conditional_maker(const CUDA_CONDITIONAL_NODE_PARAMS* params) {
  return [params](Call& call, CUgraphNode_st* made) { return make_conditional_node(call, *params, made); };
}
auto any_maker(const CUgraphNodeParams* params) {
  return [params](Call& call, CUgraphNode_st* made) {
    return params == nullptr ? CUDA_ERROR_INVALID_VALUE : make_node(call, *params, made);
  };
}

CUresult add_any(const Where& where, CUgraphNodeParams* params, const char* caller = __builtin_FUNCTION()) {
  if (params != nullptr && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    CUDA_MEM_ALLOC_NODE_PARAMS_v2& a = params->alloc;
    CUDA_MEM_ALLOC_NODE_PARAMS given{a.poolProps, a.accessDescs, a.accessDescCount, a.bytesize, 0};
    const CUresult result = add(where, allocation_maker(where.graph, &given), caller);
    if (result == CUDA_SUCCESS) a.dptr = given.dptr;
    return result;
  }
  if (params != nullptr && params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
    return add(where, free_maker(where.graph, params->free.dptr), caller);
  if (params != nullptr && params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    const auto settle = [params](State& state, CUgraphNode node) {
      add_bodies(state, node);
      params->conditional.phGraph_out = node->conditional.phGraph_out;
    };
    return add(where, conditional_maker(&params->conditional), settle, caller);
  }
  return add(where, any_maker(params), caller);
}

}  // namespace

#define SIMULATED_ADD_NODE(name, type, maker)                                                               \
  SIMULATED_API CUresult name(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, std::size_t count, \
                              const type* params) {                                                         \
    return add({out, graph, after, count}, maker(params));                                                  \
  }

SIMULATED_ADD_NODE(cuGraphAddKernelNode_v2, CUDA_KERNEL_NODE_PARAMS_v2, kernel_maker)
SIMULATED_ADD_NODE(cuGraphAddHostNode, CUDA_HOST_NODE_PARAMS, host_maker)
SIMULATED_ADD_NODE(cuGraphAddBatchMemOpNode, CUDA_BATCH_MEM_OP_NODE_PARAMS, value_maker)

SIMULATED_API CUresult cuGraphAddKernelNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                            std::size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS_v2 full = with_kernel(*params);
  return add({out, graph, after, count}, kernel_maker(&full));
}

SIMULATED_API CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                            std::size_t count, const CUDA_MEMCPY3D* params, CUcontext context) {
  return add({out, graph, after, count}, copy_maker(params, context));
}

SIMULATED_API CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                            std::size_t count, const CUDA_MEMSET_NODE_PARAMS* params,
                                            CUcontext context) {
  return add({out, graph, after, count}, set_maker(params, context));
}

SIMULATED_API CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                           std::size_t count) {
  return add({out, graph, after, count}, [](Call&, CUgraphNode_st*) { return CUDA_SUCCESS; });
}

SIMULATED_API CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                                std::size_t count, CUgraph child) {
  if (child == graph) return CUDA_ERROR_INVALID_VALUE;
  return add({out, graph, after, count},
             [child](Call& call, CUgraphNode_st* made) { return make_child_node(call, child, made); });
}

SIMULATED_API CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                                 std::size_t count, CUevent event) {
  return add({out, graph, after, count}, event_maker(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}

SIMULATED_API CUresult cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                               std::size_t count, CUevent event) {
  return add({out, graph, after, count}, event_maker(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}

SIMULATED_API CUresult cuGraphAddNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, std::size_t count,
                                      CUgraphNodeParams* params) {
  return add_any({out, graph, after, count}, params);
}

SIMULATED_API CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                         const CUgraphEdgeData*, std::size_t count, CUgraphNodeParams* params) {
  return add_any({out, graph, after, count}, params);
}

SIMULATED_API CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                              std::size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return add({out, graph, after, count}, allocation_maker(graph, params));
}
SIMULATED_API CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                             std::size_t count, CUdeviceptr at) {
  return add({out, graph, after, count}, free_maker(graph, at));
}
SIMULATED_API CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return get(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC, params,
             [](const CUgraphNode_st& found) { return found.memory->given; });
}
SIMULATED_API CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* at) {
  return get(node, CU_GRAPH_NODE_TYPE_MEM_FREE, at,
             [](const CUgraphNode_st& found) -> CUdeviceptr { return found.memory->address; });
}

SIMULATED_API CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return get(node, CU_GRAPH_NODE_TYPE_KERNEL, params, kernel_of);
}
SIMULATED_API CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return get(node, CU_GRAPH_NODE_TYPE_KERNEL, params, [](CUgraphNode_st& found) -> CUDA_KERNEL_NODE_PARAMS_v1 {
    const CUDA_KERNEL_NODE_PARAMS_v2 p = kernel_of(found);
    return {p.func,      p.gridDimX,  p.gridDimY,       p.gridDimZ,     p.blockDimX,
            p.blockDimY, p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra};
  });
}
SIMULATED_API CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return set(node, kernel_maker(params));
}
SIMULATED_API CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS_v2 full = with_kernel(*params);
  return set(node, kernel_maker(&full));
}

SIMULATED_API CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* params) {
  return get(node, CU_GRAPH_NODE_TYPE_MEMCPY, params, [](const CUgraphNode_st& found) { return found.copy; });
}
SIMULATED_API CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* params) {
  return set(node, copy_maker(params));
}

SIMULATED_API CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* params) {
  return get(node, CU_GRAPH_NODE_TYPE_MEMSET, params, [](const CUgraphNode_st& found) { return found.set; });
}
SIMULATED_API CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params) {
  return set(node, set_maker(params));
}

SIMULATED_API CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* params) {
  return get(node, CU_GRAPH_NODE_TYPE_HOST, params, [](const CUgraphNode_st& found) { return found.host; });
}
SIMULATED_API CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return set(node, host_maker(params));
}

SIMULATED_API CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return get(node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, params, [](CUgraphNode_st& found) {
    found.values.paramArray = found.value_operations.data();
    return found.values;
  });
}
SIMULATED_API CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return set(node, value_maker(params));
}

SIMULATED_API CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  return get(node, CU_GRAPH_NODE_TYPE_GRAPH, graph, [](const CUgraphNode_st& found) { return found.child; });
}

SIMULATED_API CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return get(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, [](const CUgraphNode_st& found) { return found.event; });
}
SIMULATED_API CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return set(node, event_maker(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}
SIMULATED_API CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  return get(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, [](const CUgraphNode_st& found) { return found.event; });
}
SIMULATED_API CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return set(node, event_maker(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}

SIMULATED_API CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params) {
  return set(node, any_maker(params));
}
