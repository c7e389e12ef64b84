// SPDX-License-Identifier: Apache-2.0
// Conditional nodes: handles, the graphs that are their bodies, and what a launch makes of them. The device's side
// stands in core/conditional.h.
//
// As strict as CUDA's documentation allows: a handle belongs to one node, every handle of a graph is used when it is
// instantiated, bodies hold what it lists and copies of pinned and device memory. A value that no default is given for
// is what it was left at.
#pragma once

#include "simulator/core/streams/conditional.h"
#include "simulator/cuda/graph/graph.h"

namespace simulator::cuda {

bool has_conditional_nodes(const CUgraph_st& graph);  // not in bodies alone: those are in a node

// The node; and, when it has its place, empty bodies. The array of them is the node's.
CUresult make_conditional_node(Call& call, const CUDA_CONDITIONAL_NODE_PARAMS& given, CUgraphNode_st* out);
void add_bodies(State& state, CUgraphNode node);

// Of a graph that is about to be launchable: what its bodies hold, and whether each handle is used.
CUgraphInstantiateResult check_conditions(Machine& machine, const CUgraph_st& graph);
// Values for each handle of the graph and of its bodies; null: there are none.
std::shared_ptr<Conditions> conditions_of(const CUgraph_st& graph);
// What begins each launch.
Work default_conditions(const CUgraph_st& graph, std::shared_ptr<Conditions> conditions);
// What the node does in a launch; conditions: the launchable graph's.
Work work_of(const CUgraphNode_st& node, const std::shared_ptr<Conditions>& conditions);

}  // namespace simulator::cuda
