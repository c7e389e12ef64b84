// SPDX-License-Identifier: Apache-2.0
// Conditional nodes: handles, the graphs that are their bodies, and how a launch runs them. The device's side is in
// core/streams/conditional.h.
//
// As strict as CUDA's documentation allows: a handle belongs to one node; every handle of a graph must be used when the
// graph is instantiated; bodies may contain what the documentation lists, and copies of pinned and device memory. A
// value without a default keeps what it was last set to.
#pragma once

#include "simulator/core/streams/conditional.h"
#include "simulator/cuda/graph/graph.h"

namespace simulator::cuda {

bool has_conditional_nodes(const CUgraph_st& graph);  // at top level: bodies are inside such a node anyway

// Makes the node; and, once it is in the graph, its empty bodies. The node owns the array of them.
CUresult make_conditional_node(Call& call, const CUDA_CONDITIONAL_NODE_PARAMS& given, CUgraphNode_st* out);
void add_bodies(State& state, CUgraphNode node);

// Checks a graph that is being instantiated: what its bodies contain, and whether each handle is used.
CUgraphInstantiateResult check_conditions(Machine& machine, const CUgraph_st& graph);
// Storage for the values of all handles of the graph and of its bodies; null: there are none.
std::shared_ptr<Conditions> conditions_of(const CUgraph_st& graph);
// The first work of each launch.
Work default_conditions(const CUgraph_st& graph, std::shared_ptr<Conditions> conditions);
// The node's work in a launch. `conditions`: the executable graph's.
Work work_of(const CUgraphNode_st& node, const std::shared_ptr<Conditions>& conditions);

}  // namespace simulator::cuda
