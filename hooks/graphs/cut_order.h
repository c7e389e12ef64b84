// SPDX-License-Identifier: Apache-2.0
// In which order the nodes of a graph are launched in parts, and where it is cut. Pure arithmetic: no driver, no engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "driver/units.h"

namespace thermocline {

// A node, as the cut sees it.
struct CutNode {
  struct Use {
    std::size_t buffer = 0;  // a small number, the same for each node that uses it
    Bytes bytes = 0;
  };
  std::vector<std::size_t> after;  // nodes that it depends on
  std::vector<Use> uses;           // each buffer once
};

// The nodes in segments, each of which uses no more than `most`, unless one node alone does. Every node comes after those
// that it depends on: in an earlier segment, or in the same one. So a path between two nodes of a segment never leaves it.
// Nodes are given in the order in which the program added them, which is kept but where another node that is ready shares
// buffers with the segment and needs fewer new ones. Fewer nodes than were given: their edges form a circle.
std::vector<std::vector<std::size_t>> cut_in_order(const std::vector<CutNode>& nodes, Bytes most);

}  // namespace thermocline
