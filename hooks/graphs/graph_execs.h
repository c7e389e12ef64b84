// SPDX-License-Identifier: Apache-2.0
// What each executable graph names now: read when it is instantiated, replaced as it is updated, forgotten when it is
// destroyed. A launch accesses that and nothing else, so between launches all of it may be evicted, and what a graph
// names that is destroyed, or was never instantiated, counts for nothing.
//
// Never less than the truth: where it is not known which node is meant, what it named before stays beside the new. Of
// an executable that nobody saw made, nothing is known.
#pragma once

#include "hooks/graphs/graph_contents.h"
#include "hooks/operands/accesses.h"

namespace thermocline {

void graph_instantiated(CUgraphExec exec, GraphContents contents, bool device_launches);
// By the nodes of another graph; those that were disabled count as enabled again.
void graph_updated(CUgraphExec exec, GraphContents contents);
// `children`: the contents of its child graph, where it is such a node.
void graph_node_set(CUgraphExec exec, CUgraphNode node, NodeContents contents, const GraphContents& children = {});
void graph_node_enabled(CUgraphExec exec, CUgraphNode node, bool enabled);
void graph_exec_destroyed(CUgraphExec exec);

// Kernels on the device may launch it, at times that nobody sees.
bool device_launches(CUgraphExec exec);

struct GraphAccess {
  bool is_known = false;
  AccessList accesses;
  std::vector<Move> moves, beyond;  // each once; those that are searched at a launch, and those that are not
  std::vector<std::vector<MemoryAccess>>
      kernels;  // what each was given, where that is more than one address; each once
};
// For a launch. May throw bad_alloc.
GraphAccess access_of(CUgraphExec exec);

// Kernels on the device may change what a node of some graph is given: from then on a launch of a graph accesses all
// that is live, where that fits.
void nodes_change_on_the_device();
bool any_node_changes_on_the_device();

}  // namespace thermocline
