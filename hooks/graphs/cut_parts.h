// SPDX-License-Identifier: Apache-2.0
// The nodes that a graph is cut into, and the order between them. A child graph is opened: its own nodes are parts, as if they
// were the outer graph's. A copy of the graph that has only some of them keeps the node of the child graph, without the rest.
#pragma once

#include <unordered_map>
#include <vector>

#include "hooks/graphs/graph_contents.h"

namespace thermocline {

// The node has a child graph, and it is not empty.
bool has_nodes_within(CUgraphNode node);

class CutParts {
 public:
  // kWhole: each child graph is one part.
  enum class ChildGraphs { kOpened, kWhole };
  explicit CutParts(ChildGraphs children) : children_(children) {}

  // Null: read. Else why the graph can not be cut, as a noun.
  const char* list(CUgraph graph) { return list_within(graph, nullptr); }

  bool are_whole() const { return children_ == ChildGraphs::kWhole; }
  // In the order in which the driver lists them, that of their creation; those of a child graph where its node is.
  const std::vector<CUgraphNode>& all() const { return all_; }
  // The nodes of child graphs that are opened, innermost first.
  const std::vector<CUgraphNode>& opened() const { return opened_; }
  // The opened child graph's node that has it; null: none has.
  CUgraphNode parent(CUgraphNode node) const { return facts_.at(node).parent; }
  // The part that a node of the graph is, or is in. Null: a child graph that is opened.
  CUgraphNode part_with(CUgraphNode node, const GraphContents& contents) const;
  // The parts that it comes behind.
  std::vector<CUgraphNode> before(CUgraphNode part) const;

 private:
  struct Facts {
    CUgraphNode parent = nullptr;
    std::vector<CUgraphNode> before{};  // in the same graph
    std::vector<CUgraphNode> last{};    // of an opened child graph: those that no other one of it comes behind
  };
  const char* list_within(CUgraph graph, CUgraphNode parent);
  void add_last_parts(CUgraphNode node, std::vector<CUgraphNode>* out) const;

  const ChildGraphs children_;
  std::vector<CUgraphNode> all_, opened_;
  std::unordered_map<CUgraphNode, Facts> facts_;  // of parts and of opened ones
};

}  // namespace thermocline
