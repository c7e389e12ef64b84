// SPDX-License-Identifier: Apache-2.0
// The shape of a graph: nodes, edges, clones; and the memory and user objects that graphs hold.
#include "simulator/cudart/convert.h"
#include "simulator/cudart/same.h"

using namespace simulator::cudart;

CUDART_SAME(cudaGraphGetRootNodes, cuGraphGetRootNodes, (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count),
            graph, nodes, count)
CUDART_SAME(cudaGraphGetEdges, cuGraphGetEdges,
            (cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* edges, size_t* count),
            graph, from, to, as_driver<CUgraphEdgeData*>(edges), count)
CUDART_SAME(cudaGraphNodeGetDependencies, cuGraphNodeGetDependencies,
            (cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* edges, size_t* count), node, nodes,
            as_driver<CUgraphEdgeData*>(edges), count)
CUDART_SAME(cudaGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes,
            (cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* edges, size_t* count), node, nodes,
            as_driver<CUgraphEdgeData*>(edges), count)
CUDART_SAME(cudaGraphAddDependencies, cuGraphAddDependencies,
            (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
             size_t count),
            graph, from, to, as_driver<const CUgraphEdgeData*>(edges), count)
CUDART_SAME(cudaGraphRemoveDependencies, cuGraphRemoveDependencies,
            (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
             size_t count),
            graph, from, to, as_driver<const CUgraphEdgeData*>(edges), count)
CUDART_SAME(cudaGraphDestroyNode, cuGraphDestroyNode, (cudaGraphNode_t node), node)
CUDART_SAME(cudaGraphNodeFindInClone, cuGraphNodeFindInClone,
            (cudaGraphNode_t * found, cudaGraphNode_t node, cudaGraph_t copy), found, node, copy)
CUDART_SAME(cudaGraphDebugDotPrint, cuGraphDebugDotPrint, (cudaGraph_t graph, const char* path, unsigned flags), graph,
            path, flags)

CUDART_SAME(cudaUserObjectCreate, cuUserObjectCreate,
            (cudaUserObject_t * object, void* pointer, cudaHostFn_t destroy, unsigned count, unsigned flags), object,
            pointer, destroy, count, flags)
CUDART_SAME(cudaUserObjectRetain, cuUserObjectRetain, (cudaUserObject_t object, unsigned count), object, count)
CUDART_SAME(cudaUserObjectRelease, cuUserObjectRelease, (cudaUserObject_t object, unsigned count), object, count)
CUDART_SAME(cudaGraphRetainUserObject, cuGraphRetainUserObject,
            (cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags), graph, object, count, flags)
CUDART_SAME(cudaGraphReleaseUserObject, cuGraphReleaseUserObject,
            (cudaGraph_t graph, cudaUserObject_t object, unsigned count), graph, object, count)

CUDART_SAME(cudaDeviceGraphMemTrim, cuDeviceGraphMemTrim, (int device), device)
CUDART_SAME(cudaDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute,
            (int device, cudaGraphMemAttributeType attribute, void* value), device,
            static_cast<CUgraphMem_attribute>(attribute), value)
CUDART_SAME(cudaDeviceSetGraphMemAttribute, cuDeviceSetGraphMemAttribute,
            (int device, cudaGraphMemAttributeType attribute, void* value), device,
            static_cast<CUgraphMem_attribute>(attribute), value)

extern "C" cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graph, unsigned long long* flags) {
  if (flags == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    cuuint64_t found = 0;
    const cudaError_t status = CUDART_CALL(table, cuGraphExecGetFlags, graph, &found);
    if (status == cudaSuccess) *flags = found;
    return status;
  });
}
