// SPDX-License-Identifier: Apache-2.0
// Which memory the nodes of a graph name, as the driver reports it. So nodes that were captured, added, changed, or
// copied from other graphs are all read in the same way. One exception: drivers before CUDA 13 do not report the bodies
// of conditional nodes, so these are remembered when such a node is added.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "hooks/operands/accesses.h"

namespace thermocline {

class EngineSet;

// Memory that a node allocates; it is the driver's own.
struct GraphAllocation {
  Bytes bytes = 0;
  int device = 0;
};

// The engines' memory that one node names.
struct NodeContents {
  CUgraphNode parent = nullptr;                     // the node whose child graph or body contains it; null: none
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;  // where it was read from a graph
  std::vector<MemoryAccess> accesses{};
  std::vector<Move> moves{};                    // of copies
  std::vector<std::uint64_t> words_in_place{};  // see tables_in_place.h
  bool is_kernel = false;
  const char* name = nullptr;    // of the kernel (OperationInfo::name)
  bool stores_pointers = false;  // the kernel is known to store pointers
  bool is_of_nccl = false;
  bool is_known = true;  // false: the node may access anything
  bool is_enabled = true;
  bool comes_first = false;     // a copy that only runs after copies that also come first
  bool may_write_host = false;  // host functions, and nodes that wait for others
  GraphAllocation allocates{};

  void take(const AccessList& list);
};
using GraphContents = std::unordered_map<CUgraphNode, NodeContents>;

// `engines`: null if there are none; then nothing is named. May throw bad_alloc.
GraphContents contents_of(const EngineSet* engines, CUgraph graph);
NodeContents contents_of(const EngineSet* engines, const CUgraphNodeParams& params);
NodeContents contents_of_kernel(const EngineSet* engines, CUfunction function, void* const* parameters,
                                void* const* extra);
// Also for a CUkernel in `kern`, which is not bound to a context.
CUfunction function_of(const CUDA_KERNEL_NODE_PARAMS_v1& node);
template <class Node>
CUfunction function_of(const Node& node) {
  return node.func != nullptr ? node.func : reinterpret_cast<CUfunction>(node.kern);
}

// Adds the memory that a copy, a set, or value operations name: the driver may check it when such a node is added.
void add_node(const CUgraphNodeParams& params, AccessList* accesses);

// The nodes of the graph itself; false: the driver does not say.
bool nodes_of(CUgraph graph, std::vector<CUgraphNode>* out);

// Remembers the bodies of a conditional node of `graph`, as long as both exist.
void remember_bodies(CUgraph graph, CUgraphNode node, std::span<const CUgraph> bodies);
void forget_bodies_of(CUgraphNode node);
void forget_bodies_in(CUgraph graph);

}  // namespace thermocline
