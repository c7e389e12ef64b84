// SPDX-License-Identifier: Apache-2.0
// Graphs as programs build or capture them, and executable graphs. A node contains the same description of work that a
// stream would be given, so everything that holds for an operation in a stream holds for one in a graph.
//
// Invariants: a node belongs to one live graph, and its dependencies are nodes of that graph; edges form no cycle;
// `source` of a node in a copy is the node that it was copied from, and is compared but never dereferenced. An
// executable graph owns a private copy, which nobody else can change.
#pragma once

#include "simulator/cuda/call.h"

#include <span>
#include <variant>

struct CUgraphNode_st {
  CUgraph graph = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  simulator::Work work;  // kernel, copy, set, host function; otherwise a marker
  std::vector<CUgraphNode> after;
  bool is_enabled = true;
  std::optional<simulator::DeviceId> device;  // that executes it; none: the device of the launch's stream
  const CUgraphNode_st* source = nullptr;
  // The arguments that the program passed, for queries.
  CUfunction function = nullptr;
  std::vector<void*> parameters;  // pointers into the kernel's block of parameters
  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS set{};
  CUDA_HOST_NODE_PARAMS host{};
  CUDA_BATCH_MEM_OP_NODE_PARAMS values{};  // its array points to `value_operations`
  std::vector<CUstreamBatchMemOpParams> value_operations;
  std::vector<simulator::Work> value_work;  // of these, one after the other
  CUevent event = nullptr;
  CUgraph child = nullptr;                               // owned
  CUDA_CONDITIONAL_NODE_PARAMS conditional{};            // its array points to `bodies`
  std::vector<CUgraph> bodies;                           // owned (graph_conditions.h)
  std::shared_ptr<simulator::cuda::GraphMemory> memory;  // the memory that it allocates or frees (graph_memory.h)
};

namespace simulator::cuda {

struct GraphCondition {
  CUcontext context = nullptr;
  unsigned value = 0;
  bool has_default = false;  // each launch begins with the default value
};

}  // namespace simulator::cuda

struct CUgraph_st {
  std::vector<CUgraphNode> nodes;  // in order of creation
  bool is_child = false;           // belongs to a node
  unsigned long long number = 0;   // unique, never reused
  std::map<CUgraphConditionalHandle, simulator::cuda::GraphCondition> conditions{};
};

struct CUgraphExec_st {
  CUgraph graph = nullptr;  // owned
  unsigned long long flags = 0;
  unsigned long long source = 0;    // number of the graph that it was instantiated from
  simulator::OperationId last = 0;  // the end of the newest launch: launches of one graph run one after the other
  std::shared_ptr<simulator::Conditions> conditions{};  // null: none
};

namespace simulator::cuda {

using Nodes = std::span<const CUgraphNode>;

CUgraph create_graph(State& state);
void destroy_graph(State& state, CUgraph graph);
CUgraph clone_graph(State& state, CUgraph graph);

// Adds a node to the graph with the given dependencies. The caller has checked that they belong to the graph.
CUgraphNode add_node(State& state, CUgraph graph, CUgraphNode_st node, Nodes after);
void destroy_node(State& state, CUgraphNode node);
bool are_nodes_of(const State& state, CUgraph graph, const CUgraphNode* nodes, std::size_t count);

// Copies everything except the node's position: graph, edges, source.
void set_contents(State& state, CUgraphNode node, const CUgraphNode_st& contents);

// The node of a copy that was made from `original`, also through copies of copies; null: none.
CUgraphNode find_in(const CUgraph_st& copy, const CUgraph_st* original_graph, const CUgraphNode_st* original);

// The nodes in topological order; among those that could be next, the oldest. Fewer than all if there is a cycle.
std::vector<CUgraphNode> in_order(const CUgraph_st& graph);

// Make the node of each kind from the structure with which programs describe it.
CUresult make_kernel_node(Call& call, const CUDA_KERNEL_NODE_PARAMS_v2& given, CUgraphNode_st* out);
CUresult make_copy_node(Call& call, const CUDA_MEMCPY3D& given, CUgraphNode_st* out);
CUresult make_set_node(Call& call, const CUDA_MEMSET_NODE_PARAMS& given, CUgraphNode_st* out);
CUresult make_host_node(const CUDA_HOST_NODE_PARAMS& given, CUgraphNode_st* out);
CUresult make_value_node(Call& call, const CUDA_BATCH_MEM_OP_NODE_PARAMS& given, CUgraphNode_st* out);
CUresult make_event_node(Call& call, CUgraphNodeType type, CUevent event, CUgraphNode_st* out);
CUresult make_child_node(Call& call, CUgraph graph, CUgraphNode_st* out);
CUresult make_node(Call& call, const CUgraphNodeParams& given, CUgraphNode_st* out);
// A node for work that was submitted to a capturing stream.
CUgraphNode_st node_of(Work work, CUfunction function);

// Queues a whole graph in the stream. The host is charged for one launch.
CUresult launch_graph(Call& call, CUgraphExec graph, StreamId stream);

}  // namespace simulator::cuda
