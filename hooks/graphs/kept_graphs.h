// SPDX-License-Identifier: Apache-2.0
// Copies of the graphs that executable graphs were made from: those that name so much that a launch may not fit in the
// budget at once, and then has to be cut (cut_graphs.h). The program may change or destroy its own graph as soon as it has
// made an executable one. What it changes in the executable graph is changed in the copy, and in the segments that were
// cut from it.
//
// CUDA does not synchronize calls on one executable graph: the program does. So a KeptGraph has no lock of its own.
#pragma once

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "hooks/graphs/graph_contents.h"
#include "hooks/runtime/guarded.h"

namespace thermocline {

// A part of the kept graph: a copy of it without the nodes of the other segments. Of a child graph it may have a part.
struct GraphSegment {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  std::vector<CUgraphNode> parts{};  // which of the kept graph's nodes it runs, in their order
  std::unordered_map<CUgraphNode, CUgraphNode>
      nodes{};  // its own, by the kept graph's: those that are in no child graph
};

void destroy_segments(std::vector<GraphSegment>* segments) noexcept;

struct KeptGraph {
  KeptGraph() = default;
  ~KeptGraph();
  KeptGraph(const KeptGraph&) = delete;
  KeptGraph& operator=(const KeptGraph&) = delete;

  // Why the graph can not be cut, as a noun: "a host node"; null: it can.
  const char* obstacle = nullptr;
  CUgraph graph = nullptr;
  std::unordered_map<CUgraphNode, CUgraphNode> twins;  // the copy's nodes, by the program's
  std::unordered_set<CUgraphNode> disabled;            // of the copy's nodes
  bool has_disabled_within = false;                    // some of them are, or were, in a child graph
  unsigned long long flags = 0;                        // with which segments are instantiated
  Bytes named = 0;                                     // of the largest part that one device has
  std::vector<GraphSegment> segments;                  // in order; empty: it is to be cut at the next launch
  bool children_are_whole = false;                     // no child graph has nodes in two of these
  CUevent newest = nullptr;                            // behind the newest launch in segments; null: none
  bool ran_whole = false;                              // its newest launch was not in segments, if `newest` is null
  CUcontext context = nullptr;                         // in which it was instantiated

  // cuda.h: what is in flight the driver frees on completion.
  void drop_segments() noexcept;
  // It is not cut any more. The order of its launches goes on.
  void give_up(const char* why) noexcept;
  // The context in which it was instantiated has ended, and the driver's objects with it.
  void abandon() noexcept;
};

// `graph`: what the executable graph was made from just now, or updated from; `contents`: of it. Nothing is kept of a graph
// that names less than a quarter of the budget, but the order of its launches, if it was launched in segments. Must not throw.
void keep_graph(CUgraphExec exec, CUgraph graph, const GraphContents& contents, unsigned long long flags,
                bool is_update) noexcept;
// Null: nothing is kept of it.
std::shared_ptr<KeptGraph> kept_graph(CUgraphExec exec);
void forget_kept_graph(CUgraphExec exec) noexcept;
// For a copy that may be older than the executable graph.
void give_up_kept_graph(CUgraphExec exec) noexcept;
void forget_kept_graphs_in(CUcontext context, bool is_gone) noexcept;

// How a node gets its new parameters: in a graph, and in an executable one made from it.
struct NodeChange {
  CallOf<CUgraphNode> in_graph;
  CallOf<CUgraphExec, CUgraphNode> in_exec;
};
// `node` of the program's, in the executable graph, has got new parameters. `contents`: what it names now; null: as before.
void kept_node_set(CUgraphExec exec, CUgraphNode node, const NodeContents* contents, const NodeChange& change) noexcept;
void kept_child_set(CUgraphExec exec, CUgraphNode node, CUgraph child, const GraphContents& contents) noexcept;
void kept_node_enabled(CUgraphExec exec, CUgraphNode node, bool enabled) noexcept;

}  // namespace thermocline
