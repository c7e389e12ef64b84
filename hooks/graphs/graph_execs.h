// SPDX-License-Identifier: Apache-2.0
// The memory that each executable graph names now: read when the graph is instantiated, replaced when it is updated,
// removed when it is destroyed. A launch accesses exactly that memory. So between launches all of it may be evicted,
// and graphs that were destroyed or never instantiated do not count.
//
// The result always includes everything that a launch accesses: if it is not known which node is meant, both its old
// and its new memory count. For an executable graph whose instantiation was not seen, nothing is known.
#pragma once

#include "hooks/graphs/graph_contents.h"
#include "hooks/operands/accesses.h"
#include "offload/engine/engine.h"

namespace thermocline {

void graph_instantiated(CUgraphExec exec, GraphContents contents, bool device_launches);
// Updated from the nodes of another graph. CUDA Programming Guide, "Individual Node Enable": an update leaves the enable
// state. Which of the newer graph's nodes are disabled is not known: all of them count as enabled.
void graph_updated(CUgraphExec exec, GraphContents contents);
// `children`: the contents of the node's child graph, if it has one.
void graph_node_set(CUgraphExec exec, CUgraphNode node, NodeContents contents, const GraphContents& children = {});
void graph_node_enabled(CUgraphExec exec, CUgraphNode node, bool enabled);
void graph_exec_destroyed(CUgraphExec exec);
// Whether nodes may be disabled now, whatever handles they have. Unknown executable graphs may have such.
bool may_have_disabled(CUgraphExec exec);

// Whether kernels on the device may launch it, which the library does not see.
bool device_launches(CUgraphExec exec);

// The memory that all nodes name, including disabled ones.
struct GraphNames {
  bool are_all = false;  // otherwise the graph names more than is known
  AccessList accesses;
};
GraphNames names_of(CUgraphExec exec);

struct GraphAccess {
  bool is_known = false;
  bool may_write_host = false;  // a node may write host memory that a copy of the graph reads
  // A copy may bring something else than its source has at the launch, or may not run at all.
  bool sources_may_change = false;
  AccessList accesses;
  std::vector<Move> moves, beyond;  // each once: copies that are searched at a launch, and those above the limit
  std::vector<Move> first;          // of the searched copies: those that certainly run, before all other nodes
  std::vector<std::uint64_t> words_in_place;  // tables that are read at a launch (tables_in_place.h)
  std::vector<GraphKernel> kernels;           // those with more than one address; each once
  GraphAllocation largest;                    // its largest allocation: a launch needs at least this much
};
// The accesses of a launch. May throw bad_alloc.
GraphAccess access_of(CUgraphExec exec);

// Kernels on the device may change the parameters of a node of some graph. From then on every graph launch accesses all
// live buffers, if they fit.
void nodes_change_on_the_device();
bool any_node_changes_on_the_device();

}  // namespace thermocline
