// SPDX-License-Identifier: Apache-2.0
#include "hooks/graphs/cut_parts.h"

#include <algorithm>
#include <unordered_set>

#include "hooks/interpose/symbols.h"

namespace thermocline {
namespace {

constexpr const char* kUnreadEdges = "edges that can not be read";
constexpr const char* kLaunchOrder = "an edge for launches in order";

// Behind these a node starts no later than behind all of the other's work.
bool is_kept_by_order(const CUgraphEdgeData& edge) {
  return edge.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT || edge.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
}

// Null: read. A driver before CUDA 12.3 has no edge data.
const char* read_dependencies(CUgraphNode node, std::vector<CUgraphNode>* before) {
  std::size_t count = 0;
  const CUresult asked = real<Function::cuGraphNodeGetDependencies_v2>(node, static_cast<CUgraphNode*>(nullptr),
                                                                       static_cast<CUgraphEdgeData*>(nullptr), &count);
  if (asked == CUDA_SUCCESS) {
    before->resize(count);
    std::vector<CUgraphEdgeData> edges(count);
    if (count != 0 &&
        real<Function::cuGraphNodeGetDependencies_v2>(node, before->data(), edges.data(), &count) != CUDA_SUCCESS)
      return kUnreadEdges;
    return std::ranges::all_of(edges, is_kept_by_order) ? nullptr : kLaunchOrder;
  }
  if (real<Function::cuGraphNodeGetDependencies>(node, static_cast<CUgraphNode*>(nullptr), &count) != CUDA_SUCCESS)
    return kUnreadEdges;
  before->resize(count);
  const bool read =
      count == 0 || real<Function::cuGraphNodeGetDependencies>(node, before->data(), &count) == CUDA_SUCCESS;
  return read ? nullptr : kUnreadEdges;
}

// The nodes of a child graph that has any. Empty: the node is none of one.
std::vector<CUgraphNode> nodes_within(CUgraphNode node, CUgraph* child) {
  CUgraphNodeType type{};
  std::vector<CUgraphNode> nodes;
  if (real<Function::cuGraphNodeGetType>(node, &type) != CUDA_SUCCESS || type != CU_GRAPH_NODE_TYPE_GRAPH) return {};
  if (real<Function::cuGraphChildGraphNodeGetGraph>(node, child) != CUDA_SUCCESS || !nodes_of(*child, &nodes))
    return {};
  return nodes;
}

}  // namespace

bool has_nodes_within(CUgraphNode node) {
  CUgraph child = nullptr;
  return !nodes_within(node, &child).empty();
}

const char* CutParts::list_within(CUgraph graph, CUgraphNode parent) {
  std::vector<CUgraphNode> nodes;
  if (!nodes_of(graph, &nodes)) return kUnreadEdges;
  std::unordered_set<CUgraphNode> last(nodes.begin(), nodes.end());
  for (const CUgraphNode node : nodes) {
    Facts& facts = facts_[node];
    facts.parent = parent;
    if (const char* const obstacle = read_dependencies(node, &facts.before); obstacle != nullptr) return obstacle;
    for (const CUgraphNode one : facts.before) last.erase(one);
    CUgraph child = nullptr;
    if (children_ == ChildGraphs::kWhole || nodes_within(node, &child).empty()) {
      all_.push_back(node);
      continue;
    }
    if (const char* const obstacle = list_within(child, node); obstacle != nullptr) return obstacle;
    opened_.push_back(node);
  }
  if (parent != nullptr) facts_.at(parent).last.assign(last.begin(), last.end());
  return nullptr;
}

void CutParts::add_last_parts(CUgraphNode node, std::vector<CUgraphNode>* out) const {
  const std::vector<CUgraphNode>& last = facts_.at(node).last;
  if (last.empty()) out->push_back(node);
  for (const CUgraphNode one : last) add_last_parts(one, out);
}

// The first ones of a child graph come behind what its node comes behind.
std::vector<CUgraphNode> CutParts::before(CUgraphNode part) const {
  std::vector<CUgraphNode> found;
  for (CUgraphNode node = part; node != nullptr; node = facts_.at(node).parent) {
    const std::vector<CUgraphNode>& before = facts_.at(node).before;
    for (const CUgraphNode one : before) add_last_parts(one, &found);
    if (!before.empty()) break;
  }
  return found;
}

CUgraphNode CutParts::part_with(CUgraphNode node, const GraphContents& contents) const {
  for (; node != nullptr; node = contents.at(node).parent) {
    const auto found = facts_.find(node);
    if (found != facts_.end()) return found->second.last.empty() ? node : nullptr;
  }
  return nullptr;
}

}  // namespace thermocline
