// SPDX-License-Identifier: Apache-2.0
// Graphs by capture: begin, end, instantiate, launch, and update as a whole.
#include "simulator/cudart/convert.h"
#include "simulator/cudart/session.h"

namespace simulator::cudart {
namespace {

cudaError_t begin_capture(Rule rule, cudaStream_t stream, cudaStreamCaptureMode mode) {
  return api(rule, [&](const Driver& table) {
    return CUDART_CALL(table, cuStreamBeginCapture, stream, static_cast<CUstreamCaptureMode>(mode));
  });
}

cudaError_t end_capture(Rule rule, cudaStream_t stream, cudaGraph_t* graph) {
  return api(rule, [&](const Driver& table) { return CUDART_CALL(table, cuStreamEndCapture, stream, graph); });
}

cudaError_t is_capturing(Rule rule, cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return api(rule, [&](const Driver& table) {
    return CUDART_CALL(table, cuStreamIsCapturing, stream, reinterpret_cast<CUstreamCaptureStatus*>(status));
  });
}

cudaError_t capture_info(Rule rule, cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                         cudaGraph_t* graph, const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                         size_t* count) {
  return api(rule, [&](const Driver& table) {
    // cuuint64_t and unsigned long long have the same size but are different types.
    cuuint64_t found = 0;
    const cudaError_t result =
        CUDART_CALL(table, cuStreamGetCaptureInfo, stream, reinterpret_cast<CUstreamCaptureStatus*>(status), &found,
                    graph, dependencies, reinterpret_cast<const CUgraphEdgeData**>(edges), count);
    if (id != nullptr) *id = found;
    return result;
  });
}

cudaError_t launch_graph(Rule rule, cudaGraphExec_t graph, cudaStream_t stream) {
  return api(rule, [&](const Driver& table) { return CUDART_CALL(table, cuGraphLaunch, graph, stream); });
}

cudaError_t upload_graph(Rule rule, cudaGraphExec_t graph, cudaStream_t stream) {
  return api(rule, [&](const Driver& table) { return CUDART_CALL(table, cuGraphUpload, graph, stream); });
}

cudaError_t begin_capture_to(Rule rule, cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* after,
                             const cudaGraphEdgeData* edges, size_t count, cudaStreamCaptureMode mode) {
  return api(rule, [&](const Driver& table) {
    return CUDART_CALL(table, cuStreamBeginCaptureToGraph, stream, graph, after,
                       as_driver<const CUgraphEdgeData*>(edges), count, static_cast<CUstreamCaptureMode>(mode));
  });
}

cudaError_t update_capture(Rule rule, cudaStream_t stream, cudaGraphNode_t* after, const cudaGraphEdgeData* edges,
                           size_t count, unsigned flags) {
  return api(rule, [&](const Driver& table) {
    return CUDART_CALL(table, cuStreamUpdateCaptureDependencies, stream, after,
                       as_driver<const CUgraphEdgeData*>(edges), count, flags);
  });
}

cudaError_t instantiate_with(Rule rule, cudaGraphExec_t* executable, cudaGraph_t graph,
                             cudaGraphInstantiateParams* params) {
  return api(rule, [&](const Driver& table) {
    return CUDART_CALL(table, cuGraphInstantiateWithParams, executable, graph,
                       as_driver<CUDA_GRAPH_INSTANTIATE_PARAMS*>(params));
  });
}

cudaError_t instantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  if (executable == nullptr) return record(cudaErrorInvalidValue);
  return api(
      [&](const Driver& table) { return CUDART_CALL(table, cuGraphInstantiateWithFlags, executable, graph, flags); });
}

}  // namespace
}  // namespace simulator::cudart

using namespace simulator::cudart;

CUDART_BOTH(cudaStreamBeginCapture, _ptsz, begin_capture, (cudaStream_t stream, cudaStreamCaptureMode mode),
            (stream, mode))
CUDART_BOTH(cudaStreamEndCapture, _ptsz, end_capture, (cudaStream_t stream, cudaGraph_t* graph), (stream, graph))
CUDART_BOTH(cudaStreamIsCapturing, _ptsz, is_capturing, (cudaStream_t stream, cudaStreamCaptureStatus* status),
            (stream, status))
CUDART_BOTH(cudaStreamGetCaptureInfo, _ptsz, capture_info,
            (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
             const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges, size_t* count),
            (stream, status, id, graph, dependencies, edges, count))
CUDART_BOTH(cudaStreamBeginCaptureToGraph, _ptsz, begin_capture_to,
            (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* after, const cudaGraphEdgeData* edges,
             size_t count, cudaStreamCaptureMode mode),
            (stream, graph, after, edges, count, mode))
CUDART_BOTH(cudaStreamUpdateCaptureDependencies, _ptsz, update_capture,
            (cudaStream_t stream, cudaGraphNode_t* after, const cudaGraphEdgeData* edges, size_t count, unsigned flags),
            (stream, after, edges, count, flags))
CUDART_BOTH(cudaGraphInstantiateWithParams, _ptsz, instantiate_with,
            (cudaGraphExec_t * executable, cudaGraph_t graph, cudaGraphInstantiateParams* params),
            (executable, graph, params))
CUDART_BOTH(cudaGraphLaunch, _ptsz, launch_graph, (cudaGraphExec_t graph, cudaStream_t stream), (graph, stream))
CUDART_BOTH(cudaGraphUpload, _ptsz, upload_graph, (cudaGraphExec_t graph, cudaStream_t stream), (graph, stream))

extern "C" {

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return api([&](const Driver& table) {
    return CUDART_CALL(table, cuThreadExchangeStreamCaptureMode, reinterpret_cast<CUstreamCaptureMode*>(mode));
  });
}

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuGraphCreate, graph, flags); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuGraphDestroy, graph); });
}

cudaError_t cudaGraphClone(cudaGraph_t* copy, cudaGraph_t graph) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuGraphClone, copy, graph); });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuGraphGetNodes, graph, nodes, count); });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return api([&](const Driver& table) {
    return CUDART_CALL(table, cuGraphNodeGetType, node, reinterpret_cast<CUgraphNodeType*>(type));
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return instantiate(executable, graph, flags);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return instantiate(executable, graph, flags);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuGraphExecDestroy, executable); });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info) {
  if (info == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    CUgraphExecUpdateResultInfo found = {};
    const cudaError_t status = CUDART_CALL(table, cuGraphExecUpdate, executable, graph, &found);
    info->result = static_cast<cudaGraphExecUpdateResult>(found.result);
    info->errorNode = found.errorNode;
    info->errorFromNode = found.errorFromNode;
    return status;
  });
}

}  // extern "C"
