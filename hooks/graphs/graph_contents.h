// SPDX-License-Identifier: Apache-2.0
// What the nodes of a graph name, as the driver tells it: so nodes that were recorded, added, changed, copied from
// other graphs are all read alike. Only the bodies of conditional nodes no driver before CUDA 13 tells; they are
// remembered when such a node is added.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "hooks/operands/accesses.h"

namespace thermocline {

class EngineSet;

// What one node names of ours.
struct NodeContents {
  CUgraphNode parent = nullptr;  // the node whose child graph, or body, it is in; null: none
  std::vector<MemoryAccess> accesses{};
  std::vector<Move> moves{};  // of copies
  bool is_kernel = false;
  bool is_known = true;  // false: it may access anything
  bool is_enabled = true;

  void take(const AccessList& list);
};
using GraphContents = std::unordered_map<CUgraphNode, NodeContents>;

// `engines`: null where there are none, and nothing is ours. May throw bad_alloc.
GraphContents contents_of(const EngineSet* engines, CUgraph graph);
NodeContents contents_of(const EngineSet* engines, const CUgraphNodeParams& params);
NodeContents contents_of_kernel(const EngineSet* engines, CUfunction function, void* const* parameters,
                                void* const* extra);
// Of a function in `kern`, which is a kernel that is not bound to a context.
CUfunction function_of(const CUDA_KERNEL_NODE_PARAMS_v1& node);
template <class Node>
CUfunction function_of(const Node& node) {
  return node.func != nullptr ? node.func : reinterpret_cast<CUfunction>(node.kern);
}

// What a copy, a set, operations on values name: what the driver may look at when it is given such a node.
void add_node(const CUgraphNodeParams& params, AccessList* accesses);

// The bodies of a conditional node of `graph`, until either goes.
void remember_bodies(CUgraph graph, CUgraphNode node, std::span<const CUgraph> bodies);
void forget_bodies_of(CUgraphNode node);
void forget_bodies_in(CUgraph graph);

}  // namespace thermocline
