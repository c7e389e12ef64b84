// SPDX-License-Identifier: Apache-2.0
// Graphs as programs build or record them, and as they launch them. A node carries the same description of work that a
// stream would be given, so whatever is true of an operation in a stream is true of one in a graph.
//
// Invariants: a node belongs to one live graph and comes behind nodes of that graph alone; these edges have no cycle;
// `source` of a node in a copy is the node that it was copied from, and is compared, never followed. A launchable graph
// owns a copy of its own, which nobody else can change.
#pragma once

#include "simulator/cuda/call.h"

#include <span>
#include <variant>

struct CUgraphNode_st {
  CUgraph graph = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  simulator::Work work;  // kernel, copy, set, host function; else a marker
  std::vector<CUgraphNode> after;
  bool is_enabled = true;
  std::optional<simulator::DeviceId> device;  // that does it; none: that of the stream of the launch
  const CUgraphNode_st* source = nullptr;
  // What the program gave, for those who ask.
  CUfunction function = nullptr;
  std::vector<void*> parameters;  // into the kernel's block of parameters
  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS set{};
  CUDA_HOST_NODE_PARAMS host{};
  CUevent event = nullptr;
  CUgraph child = nullptr;                               // its own
  CUDA_CONDITIONAL_NODE_PARAMS conditional{};            // its array: `bodies`
  std::vector<CUgraph> bodies;                           // its own (graph_conditions.h)
  std::shared_ptr<simulator::cuda::GraphMemory> memory;  // that it allocates or frees (graph_memory.h)
};

namespace simulator::cuda {

struct GraphCondition {
  CUcontext context = nullptr;
  unsigned value = 0;
  bool has_default = false;  // each launch begins with it
};

}  // namespace simulator::cuda

struct CUgraph_st {
  std::vector<CUgraphNode> nodes;  // in order of creation
  bool is_child = false;           // belongs to a node
  unsigned long long number = 0;   // that no other graph ever had
  std::map<CUgraphConditionalHandle, simulator::cuda::GraphCondition> conditions{};
};

struct CUgraphExec_st {
  CUgraph graph = nullptr;  // its own
  unsigned long long flags = 0;
  unsigned long long source = 0;    // number of the graph that it was made from
  simulator::OperationId last = 0;  // the end of the newest launch: launches of one graph follow one another
  std::shared_ptr<simulator::Conditions> conditions{};  // null: it has none
};

namespace simulator::cuda {

using Nodes = std::span<const CUgraphNode>;

CUgraph create_graph(State& state);
void destroy_graph(State& state, CUgraph graph);
CUgraph clone_graph(State& state, CUgraph graph);

// A node of the graph, behind others. The caller has checked that they are the graph's.
CUgraphNode add_node(State& state, CUgraph graph, CUgraphNode_st node, Nodes after);
void destroy_node(State& state, CUgraphNode node);
bool are_nodes_of(const State& state, CUgraph graph, const CUgraphNode* nodes, std::size_t count);

// Copies everything but the place among the others: graph, edges, source.
void set_contents(State& state, CUgraphNode node, const CUgraphNode_st& contents);

// The node of a copy that was made of `original`, also through copies of copies; null: none.
CUgraphNode find_in(const CUgraph_st& copy, const CUgraph_st* original_graph, const CUgraphNode_st* original);

// Nodes so that each stands behind those that it comes behind; of those that could be next, the oldest. Fewer than all
// where there is a cycle.
std::vector<CUgraphNode> in_order(const CUgraph_st& graph);

// What a node of each kind is, from what programs describe it with.
CUresult make_kernel_node(Call& call, const CUDA_KERNEL_NODE_PARAMS_v2& given, CUgraphNode_st* out);
CUresult make_copy_node(Call& call, const CUDA_MEMCPY3D& given, CUgraphNode_st* out);
CUresult make_set_node(Call& call, const CUDA_MEMSET_NODE_PARAMS& given, CUgraphNode_st* out);
CUresult make_host_node(const CUDA_HOST_NODE_PARAMS& given, CUgraphNode_st* out);
CUresult make_event_node(Call& call, CUgraphNodeType type, CUevent event, CUgraphNode_st* out);
CUresult make_child_node(Call& call, CUgraph graph, CUgraphNode_st* out);
CUresult make_node(Call& call, const CUgraphNodeParams& given, CUgraphNode_st* out);
// A node for work that a stream was given while it recorded.
CUgraphNode_st node_of(Work work, CUfunction function);

// Queues a whole graph in the stream. It is charged as one launch.
CUresult launch_graph(Call& call, CUgraphExec graph, StreamId stream);

}  // namespace simulator::cuda
