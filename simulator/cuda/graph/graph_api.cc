// SPDX-License-Identifier: Apache-2.0
// Graphs and their edges: creation, copies, queries.
#include <algorithm>

#include "simulator/cuda/graph/graph_conditions.h"
#include "simulator/cuda/graph/graph_memory.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

// Returns a list in the driver's way: its length if `out` is null; else as many entries as there is room for, followed
// by nulls.
CUresult answer(const std::vector<CUgraphNode>& nodes, CUgraphNode* out, std::size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out == nullptr) {
    *count = nodes.size();
    return CUDA_SUCCESS;
  }
  for (std::size_t i = 0; i < *count; ++i) out[i] = i < nodes.size() ? nodes[i] : nullptr;
  *count = std::min(*count, nodes.size());
  return CUDA_SUCCESS;
}

// For the second versions of calls that return edges: edge data is always zero here.
CUresult with_edge_data(CUresult result, const CUgraphNode* answered, CUgraphEdgeData* data, const std::size_t* count) {
  if (result == CUDA_SUCCESS && data != nullptr && answered != nullptr) std::fill_n(data, *count, CUgraphEdgeData{});
  return result;
}

template <typename Choose>
CUresult nodes_of(CUgraph graph, CUgraphNode* out, std::size_t* count, Choose choose,
                  const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  if (!call.state().graphs.has(graph)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> chosen;
  std::copy_if(graph->nodes.begin(), graph->nodes.end(), std::back_inserter(chosen), choose);
  return answer(chosen, out, count);
}

CUresult edges_of(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count,
                  const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  if (!call.state().graphs.has(graph) || (from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> starts, ends;
  for (CUgraphNode node : graph->nodes) {
    for (CUgraphNode before : node->after) {
      starts.push_back(before);
      ends.push_back(node);
    }
  }
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::size_t room = *count;
  if (const CUresult result = answer(starts, from, count); result != CUDA_SUCCESS || from == nullptr) return result;
  return answer(ends, to, &room);
}

CUresult dependencies_of(CUgraphNode node, CUgraphNode* out, std::size_t* count,
                         const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  if (!call.state().graph_nodes.has(node)) return CUDA_ERROR_INVALID_VALUE;
  return answer(node->after, out, count);
}

CUresult dependents_of(CUgraphNode node, CUgraphNode* out, std::size_t* count,
                       const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  if (!call.state().graph_nodes.has(node)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> behind;
  for (CUgraphNode other : node->graph->nodes) {
    if (std::find(other->after.begin(), other->after.end(), node) != other->after.end()) behind.push_back(other);
  }
  return answer(behind, out, count);
}

bool has_edge(CUgraphNode from, CUgraphNode to) {
  return std::find(to->after.begin(), to->after.end(), from) != to->after.end();
}

CUresult add_edges(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, std::size_t count,
                   const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  const State& state = call.state();
  if (!state.graphs.has(graph) || !are_nodes_of(state, graph, from, count) || !are_nodes_of(state, graph, to, count))
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    if (from[i] == to[i] || has_edge(from[i], to[i])) return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t i = 0; i < count; ++i) to[i]->after.push_back(from[i]);
  if (in_order(*graph).size() == graph->nodes.size()) return CUDA_SUCCESS;
  for (std::size_t i = 0; i < count; ++i) to[i]->after.pop_back();
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult remove_edges(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, std::size_t count,
                      const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  const State& state = call.state();
  if (!state.graphs.has(graph) || !are_nodes_of(state, graph, from, count) || !are_nodes_of(state, graph, to, count))
    return CUDA_ERROR_INVALID_VALUE;
  if (has_memory_nodes(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
  for (std::size_t i = 0; i < count; ++i) {
    if (!has_edge(from[i], to[i])) return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t i = 0; i < count; ++i) std::erase(to[i]->after, from[i]);
  return CUDA_SUCCESS;
}

bool any(CUgraphNode) { return true; }

}  // namespace

SIMULATED_API CUresult cuGraphCreate(CUgraph* out, unsigned flags) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *out = create_graph(call.state());
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuGraphDestroy(CUgraph graph) {
  Call call;
  if (!call) return call.result();
  if (!call.state().graphs.has(graph) || graph->is_child) return CUDA_ERROR_INVALID_VALUE;
  destroy_graph(call.state(), graph);
  sweep_graph_memory(call);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuGraphClone(CUgraph* out, CUgraph graph) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || !call.state().graphs.has(graph)) return CUDA_ERROR_INVALID_VALUE;
  if (has_memory_nodes(*graph) || has_conditional_nodes(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
  *out = clone_graph(call.state(), graph);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode node, CUgraph copy) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || !call.state().graphs.has(copy) || !call.state().graph_nodes.has(node))
    return CUDA_ERROR_INVALID_VALUE;
  *out = find_in(*copy, node->graph, node);
  return *out == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

SIMULATED_API CUresult cuGraphDestroyNode(CUgraphNode node) {
  Call call;
  if (!call) return call.result();
  if (!call.state().graph_nodes.has(node)) return CUDA_ERROR_INVALID_VALUE;
  if (has_memory_nodes(*node->graph)) return CUDA_ERROR_NOT_SUPPORTED;
  destroy_node(call.state(), node);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  Call call;
  if (!call) return call.result();
  if (type == nullptr || !call.state().graph_nodes.has(node)) return CUDA_ERROR_INVALID_VALUE;
  *type = node->type;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  return nodes_of(graph, nodes, count, any);
}

SIMULATED_API CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  return nodes_of(graph, nodes, count, [](CUgraphNode node) { return node->after.empty(); });
}

SIMULATED_API CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count) {
  return edges_of(graph, from, to, count);
}
SIMULATED_API CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                                          std::size_t* count) {
  return with_edge_data(edges_of(graph, from, to, count), from, data, count);
}

SIMULATED_API CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, std::size_t* count) {
  return dependencies_of(node, nodes, count);
}
SIMULATED_API CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* data,
                                                     std::size_t* count) {
  return with_edge_data(dependencies_of(node, nodes, count), nodes, data, count);
}

SIMULATED_API CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* nodes, std::size_t* count) {
  return dependents_of(node, nodes, count);
}
SIMULATED_API CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* data,
                                                       std::size_t* count) {
  return with_edge_data(dependents_of(node, nodes, count), nodes, data, count);
}

SIMULATED_API CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                              std::size_t count) {
  return add_edges(graph, from, to, count);
}
SIMULATED_API CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                                 const CUgraphEdgeData*, std::size_t count) {
  return add_edges(graph, from, to, count);
}

SIMULATED_API CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                                 std::size_t count) {
  return remove_edges(graph, from, to, count);
}
SIMULATED_API CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                                    const CUgraphEdgeData*, std::size_t count) {
  return remove_edges(graph, from, to, count);
}
