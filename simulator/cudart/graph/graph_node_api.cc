// SPDX-License-Identifier: Apache-2.0
// Graphs built node by node: adding nodes of each kind, and reading and changing their parameters, in a graph and in an
// executable one.
#include "simulator/cudart/convert.h"
#include "simulator/cudart/graph/graph_params.h"
#include "simulator/cudart/same.h"
#include "simulator/cudart/session.h"

namespace simulator::cudart {
namespace {

// The position of a new node in a graph.
struct NewNode {
  cudaGraphNode_t* out;
  cudaGraph_t graph;
  const cudaGraphNode_t* after;
  size_t count;
};

// `make` fills in parameters in the driver's form, which are then passed on for a new or an existing node.
template <typename Make>
cudaError_t add_copy(const NewNode& at, Make make) {
  return api([&](const Driver& table) {
    CUDA_MEMCPY3D copy = {};
    CUcontext context = nullptr;
    cudaError_t status = make(table, &copy);
    if (status == cudaSuccess) status = context_of_nodes(&context);
    return status == cudaSuccess
               ? CUDART_CALL(table, cuGraphAddMemcpyNode, at.out, at.graph, at.after, at.count, &copy, context)
               : status;
  });
}

template <typename Make>
cudaError_t set_copy(cudaGraphNode_t node, Make make) {
  return api([&](const Driver& table) {
    CUDA_MEMCPY3D copy = {};
    const cudaError_t status = make(table, &copy);
    return status == cudaSuccess ? CUDART_CALL(table, cuGraphMemcpyNodeSetParams, node, &copy) : status;
  });
}

template <typename Make>
cudaError_t set_copy(cudaGraphExec_t graph, cudaGraphNode_t node, Make make) {
  return api([&](const Driver& table) {
    CUDA_MEMCPY3D copy = {};
    CUcontext context = nullptr;
    cudaError_t status = make(table, &copy);
    if (status == cudaSuccess) status = context_of_nodes(&context);
    return status == cudaSuccess ? CUDART_CALL(table, cuGraphExecMemcpyNodeSetParams, graph, node, &copy, context)
                                 : status;
  });
}

auto box(const cudaMemcpy3DParms* params) {
  return [=](const Driver& table, CUDA_MEMCPY3D* out) {
    return params == nullptr ? cudaErrorInvalidValue : to_driver(table, *params, out);
  };
}

auto row(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return [=](const Driver&, CUDA_MEMCPY3D* out) {
    if (!is_kind(kind)) return cudaErrorInvalidMemcpyDirection;
    *out = row_of(to, from, bytes, kind);
    return cudaSuccess;
  };
}

auto into_variable(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return [=](const Driver&, CUDA_MEMCPY3D* out) { return copy_into_variable(symbol, from, bytes, offset, kind, out); };
}

auto from_variable(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return [=](const Driver&, CUDA_MEMCPY3D* out) { return copy_from_variable(to, symbol, bytes, offset, kind, out); };
}

template <typename Use>
cudaError_t with_kernel(const cudaKernelNodeParams* params, Use use) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    CUDA_KERNEL_NODE_PARAMS given = {};
    const cudaError_t status = to_driver(*params, &given);
    return status == cudaSuccess ? use(table, &given) : status;
  });
}

template <typename Use>
cudaError_t with_any(cudaGraphNodeParams* params, Use use) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    CUgraphNodeParams given = {};
    cudaError_t status = to_driver(table, *params, &given);
    if (status == cudaSuccess) status = use(table, &given);
    if (status == cudaSuccess) take_results(given, params);
    return status;
  });
}

}  // namespace
}  // namespace simulator::cudart

using namespace simulator::cudart;

#define CUDART_PLACE cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count
#define CUDART_HERE out, graph, after, count

CUDART_SAME(cudaGraphAddEmptyNode, cuGraphAddEmptyNode, (CUDART_PLACE), CUDART_HERE)
CUDART_SAME(cudaGraphAddChildGraphNode, cuGraphAddChildGraphNode, (CUDART_PLACE, cudaGraph_t child), CUDART_HERE, child)
CUDART_SAME(cudaGraphAddEventRecordNode, cuGraphAddEventRecordNode, (CUDART_PLACE, cudaEvent_t event), CUDART_HERE,
            event)
CUDART_SAME(cudaGraphAddEventWaitNode, cuGraphAddEventWaitNode, (CUDART_PLACE, cudaEvent_t event), CUDART_HERE, event)
CUDART_SAME(cudaGraphAddHostNode, cuGraphAddHostNode, (CUDART_PLACE, const cudaHostNodeParams* params), CUDART_HERE,
            as_driver<const CUDA_HOST_NODE_PARAMS*>(params))
CUDART_SAME(cudaGraphAddMemAllocNode, cuGraphAddMemAllocNode, (CUDART_PLACE, cudaMemAllocNodeParams* params),
            CUDART_HERE, as_driver<CUDA_MEM_ALLOC_NODE_PARAMS*>(params))
CUDART_SAME(cudaGraphAddMemFreeNode, cuGraphAddMemFreeNode, (CUDART_PLACE, void* pointer), CUDART_HERE,
            address(pointer))

CUDART_SAME(cudaGraphHostNodeGetParams, cuGraphHostNodeGetParams, (cudaGraphNode_t node, cudaHostNodeParams* params),
            node, as_driver<CUDA_HOST_NODE_PARAMS*>(params))
CUDART_SAME(cudaGraphHostNodeSetParams, cuGraphHostNodeSetParams,
            (cudaGraphNode_t node, const cudaHostNodeParams* params), node,
            as_driver<const CUDA_HOST_NODE_PARAMS*>(params))
CUDART_SAME(cudaGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams, (cudaGraphNode_t node, cudaMemsetParams* params),
            node, as_driver<CUDA_MEMSET_NODE_PARAMS*>(params))
CUDART_SAME(cudaGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams,
            (cudaGraphNode_t node, const cudaMemsetParams* params), node,
            as_driver<const CUDA_MEMSET_NODE_PARAMS*>(params))
CUDART_SAME(cudaGraphMemAllocNodeGetParams, cuGraphMemAllocNodeGetParams,
            (cudaGraphNode_t node, cudaMemAllocNodeParams* params), node,
            as_driver<CUDA_MEM_ALLOC_NODE_PARAMS*>(params))
CUDART_SAME(cudaGraphMemFreeNodeGetParams, cuGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void* pointer), node,
            static_cast<CUdeviceptr*>(pointer))
CUDART_SAME(cudaGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph, (cudaGraphNode_t node, cudaGraph_t* graph),
            node, graph)
CUDART_SAME(cudaGraphEventRecordNodeGetEvent, cuGraphEventRecordNodeGetEvent,
            (cudaGraphNode_t node, cudaEvent_t* event), node, event)
CUDART_SAME(cudaGraphEventRecordNodeSetEvent, cuGraphEventRecordNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event),
            node, event)
CUDART_SAME(cudaGraphEventWaitNodeGetEvent, cuGraphEventWaitNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t* event),
            node, event)
CUDART_SAME(cudaGraphEventWaitNodeSetEvent, cuGraphEventWaitNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event),
            node, event)
CUDART_SAME(cudaGraphKernelNodeCopyAttributes, cuGraphKernelNodeCopyAttributes,
            (cudaGraphNode_t to, cudaGraphNode_t from), to, from)
CUDART_SAME(cudaGraphKernelNodeGetAttribute, cuGraphKernelNodeGetAttribute,
            (cudaGraphNode_t node, cudaLaunchAttributeID attribute, cudaLaunchAttributeValue* value), node,
            static_cast<CUkernelNodeAttrID>(attribute), as_driver<CUkernelNodeAttrValue*>(value))
CUDART_SAME(cudaGraphKernelNodeSetAttribute, cuGraphKernelNodeSetAttribute,
            (cudaGraphNode_t node, cudaLaunchAttributeID attribute, const cudaLaunchAttributeValue* value), node,
            static_cast<CUkernelNodeAttrID>(attribute), as_driver<const CUkernelNodeAttrValue*>(value))

CUDART_SAME(cudaGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams,
            (cudaGraphExec_t graph, cudaGraphNode_t node, cudaGraph_t child), graph, node, child)
CUDART_SAME(cudaGraphExecEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent,
            (cudaGraphExec_t graph, cudaGraphNode_t node, cudaEvent_t event), graph, node, event)
CUDART_SAME(cudaGraphExecEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent,
            (cudaGraphExec_t graph, cudaGraphNode_t node, cudaEvent_t event), graph, node, event)
CUDART_SAME(cudaGraphExecHostNodeSetParams, cuGraphExecHostNodeSetParams,
            (cudaGraphExec_t graph, cudaGraphNode_t node, const cudaHostNodeParams* params), graph, node,
            as_driver<const CUDA_HOST_NODE_PARAMS*>(params))
CUDART_SAME(cudaGraphNodeSetEnabled, cuGraphNodeSetEnabled,
            (cudaGraphExec_t graph, cudaGraphNode_t node, unsigned enabled), graph, node, enabled)
CUDART_SAME(cudaGraphNodeGetEnabled, cuGraphNodeGetEnabled,
            (cudaGraphExec_t graph, cudaGraphNode_t node, unsigned* enabled), graph, node, enabled)

extern "C" {

cudaError_t cudaGraphAddKernelNode(CUDART_PLACE, const cudaKernelNodeParams* params) {
  return with_kernel(params, [&](const Driver& table, const CUDA_KERNEL_NODE_PARAMS* given) {
    return CUDART_CALL(table, cuGraphAddKernelNode, CUDART_HERE, given);
  });
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* params) {
  return with_kernel(params, [&](const Driver& table, const CUDA_KERNEL_NODE_PARAMS* given) {
    return CUDART_CALL(table, cuGraphKernelNodeSetParams, node, given);
  });
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params) {
  return with_kernel(params, [&](const Driver& table, const CUDA_KERNEL_NODE_PARAMS* given) {
    return CUDART_CALL(table, cuGraphExecKernelNodeSetParams, graph, node, given);
  });
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* params) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    CUDA_KERNEL_NODE_PARAMS found = {};
    const cudaError_t status = CUDART_CALL(table, cuGraphKernelNodeGetParams, node, &found);
    if (status == cudaSuccess) *params = from_driver(found);
    return status;
  });
}

cudaError_t cudaGraphAddMemsetNode(CUDART_PLACE, const cudaMemsetParams* params) {
  return api([&](const Driver& table) {
    CUcontext context = nullptr;
    const cudaError_t status = context_of_nodes(&context);
    return status == cudaSuccess ? CUDART_CALL(table, cuGraphAddMemsetNode, CUDART_HERE,
                                               as_driver<const CUDA_MEMSET_NODE_PARAMS*>(params), context)
                                 : status;
  });
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node,
                                             const cudaMemsetParams* params) {
  return api([&](const Driver& table) {
    CUcontext context = nullptr;
    const cudaError_t status = context_of_nodes(&context);
    return status == cudaSuccess ? CUDART_CALL(table, cuGraphExecMemsetNodeSetParams, graph, node,
                                               as_driver<const CUDA_MEMSET_NODE_PARAMS*>(params), context)
                                 : status;
  });
}

cudaError_t cudaGraphAddMemcpyNode(CUDART_PLACE, const cudaMemcpy3DParms* params) {
  return add_copy({CUDART_HERE}, box(params));
}
cudaError_t cudaGraphAddMemcpyNode1D(CUDART_PLACE, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return add_copy({CUDART_HERE}, row(to, from, bytes, kind));
}
cudaError_t cudaGraphAddMemcpyNodeToSymbol(CUDART_PLACE, const void* symbol, const void* from, size_t bytes,
                                           size_t offset, cudaMemcpyKind kind) {
  return add_copy({CUDART_HERE}, into_variable(symbol, from, bytes, offset, kind));
}
cudaError_t cudaGraphAddMemcpyNodeFromSymbol(CUDART_PLACE, void* to, const void* symbol, size_t bytes, size_t offset,
                                             cudaMemcpyKind kind) {
  return add_copy({CUDART_HERE}, from_variable(to, symbol, bytes, offset, kind));
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* params) {
  return set_copy(node, box(params));
}
cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from, size_t bytes,
                                           cudaMemcpyKind kind) {
  return set_copy(node, row(to, from, bytes, kind));
}
cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol, const void* from,
                                                 size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return set_copy(node, into_variable(symbol, from, bytes, offset, kind));
}
cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* to, const void* symbol, size_t bytes,
                                                   size_t offset, cudaMemcpyKind kind) {
  return set_copy(node, from_variable(to, symbol, bytes, offset, kind));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node,
                                             const cudaMemcpy3DParms* params) {
  return set_copy(graph, node, box(params));
}
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t graph, cudaGraphNode_t node, void* to, const void* from,
                                               size_t bytes, cudaMemcpyKind kind) {
  return set_copy(graph, node, row(to, from, bytes, kind));
}
cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t graph, cudaGraphNode_t node, const void* symbol,
                                                     const void* from, size_t bytes, size_t offset,
                                                     cudaMemcpyKind kind) {
  return set_copy(graph, node, into_variable(symbol, from, bytes, offset, kind));
}
cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t graph, cudaGraphNode_t node, void* to,
                                                       const void* symbol, size_t bytes, size_t offset,
                                                       cudaMemcpyKind kind) {
  return set_copy(graph, node, from_variable(to, symbol, bytes, offset, kind));
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* params) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    CUDA_MEMCPY3D found = {};
    const cudaError_t status = CUDART_CALL(table, cuGraphMemcpyNodeGetParams, node, &found);
    return status == cudaSuccess ? from_driver(table, found, params) : status;
  });
}

cudaError_t cudaGraphAddNode(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* after,
                             const cudaGraphEdgeData* edges, size_t count, cudaGraphNodeParams* params) {
  return with_any(params, [&](const Driver& table, CUgraphNodeParams* given) {
    return CUDART_CALL(table, cuGraphAddNode, out, graph, after, as_driver<const CUgraphEdgeData*>(edges), count,
                       given);
  });
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* params) {
  return with_any(params, [&](const Driver& table, CUgraphNodeParams* given) {
    return CUDART_CALL(table, cuGraphNodeSetParams, node, given);
  });
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node, cudaGraphNodeParams* params) {
  return with_any(params, [&](const Driver& table, CUgraphNodeParams* given) {
    return CUDART_CALL(table, cuGraphExecNodeSetParams, graph, node, given);
  });
}

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle, cudaGraph_t graph, unsigned value,
                                             unsigned flags) {
  return api([&](const Driver& table) {
    CUcontext context = nullptr;
    CUgraphConditionalHandle made = 0;
    cudaError_t status = handle == nullptr ? cudaErrorInvalidValue : context_of_nodes(&context);
    if (status == cudaSuccess)
      status = CUDART_CALL(table, cuGraphConditionalHandleCreate, &made, graph, context, value, flags);
    if (status == cudaSuccess) *handle = made;
    return status;
  });
}

}  // extern "C"
