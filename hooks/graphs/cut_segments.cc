// SPDX-License-Identifier: Apache-2.0
#include "hooks/graphs/cut_segments.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "hooks/graphs/cut_order.h"
#include "hooks/graphs/graph_execs.h"
#include "hooks/pointers/tables_in_place.h"
#include "hooks/runtime/counters.h"
#include "hooks/submit/driver_room.h"
#include "hooks/submit/multi_device.h"

namespace thermocline {
namespace {

// A segment uses no more than this share of the room, unless one node does: what the next ones need is fetched while it
// runs, and what the last ones needed leaves.
constexpr Bytes kSegmentsAtOnce = 8;

constexpr const char* kOneNode = "one node that does not fit by itself";
constexpr const char* kNotInstantiated = "a segment that the driver did not instantiate";
constexpr const char* kLostNode = "a disabled node that the driver does not find in a copy";
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

bool fits(const EngineSet& engines, const AccessList& accesses) {
  return std::ranges::all_of(engines, [&](const ActiveEngine* active) {
    const AccessList part = part_of(accesses, *active);
    return part.empty() || active->engine->demand_of(part.all()).fits();
  });
}

// The nodes of the kept graph itself, in the order in which the driver lists them: that of their creation.
class Plan {
 public:
  Plan(const EngineSet& engines, const KeptGraph& kept) : engines_(engines), kept_(kept) {}

  // Null: the segments are known.
  const char* make() {
    if (!nodes_of(kept_.graph, &nodes_)) return kUnreadEdges;
    for (std::size_t i = 0; i < nodes_.size(); ++i) index_[nodes_[i]] = i;
    accesses_.resize(nodes_.size());
    order_.resize(nodes_.size());
    collect_accesses();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      number_uses(i);
      std::vector<CUgraphNode> before;
      if (const char* const obstacle = read_dependencies(nodes_[i], &before); obstacle != nullptr) return obstacle;
      for (const CUgraphNode one : before) order_[i].after.push_back(index_.at(one));
    }
    for (const std::vector<std::size_t>& segment : cut_in_order(order_, room() / kSegmentsAtOnce)) {
      if (!add(segment)) return kOneNode;
    }
    return nullptr;
  }

  const std::vector<std::vector<CUgraphNode>>& segments() const { return segments_; }

 private:
  // Accesses within a child graph count for the node of the child graph.
  void collect_accesses() {
    const GraphContents contents = contents_of(&engines_, kept_.graph);
    for (const auto& [node, one] : contents) {
      CUgraphNode top = node;
      bool runs = true;
      for (;;) {
        runs = runs && !kept_.disabled.contains(top);
        const CUgraphNode parent = contents.at(top).parent;
        if (parent == nullptr) break;
        top = parent;
      }
      if (!runs) continue;
      AccessList& list = accesses_[index_.at(top)];
      for (const MemoryAccess& access : one.accesses) list.add(access);
      add_tables_in_place(engines_, one.words_in_place, &list);
    }
  }

  void number_uses(std::size_t node) {
    std::map<std::size_t, Bytes> uses;
    for (const MemoryAccess& access : accesses_[node].all()) {
      const ActiveEngine* const owner = engines_.owner(access.address);
      if (owner == nullptr) continue;
      for (const BufferFacts& buffer : owner->engine->meant_by(access)) {
        const std::uint64_t from = access.bytes == 0 ? 0 : access.address.value;
        const std::size_t next = numbers_.size();
        const std::size_t number = numbers_.try_emplace({owner, buffer.number, from}, next).first->second;
        const Bytes bytes = access.bytes == 0 ? buffer.bytes : access.bytes;
        uses[number] = std::max(uses[number], bytes);
      }
    }
    for (const auto& [buffer, bytes] : uses) order_[node].uses.push_back({buffer, bytes});
  }

  // The room on the device that has least.
  Bytes room() const {
    Bytes least = ~Bytes{0};
    for (const ActiveEngine* active : engines_) {
      const Demand demand = active->engine->demand_of({});
      least = std::min(least, demand.budget - std::min(demand.budget, demand.stays));
    }
    return least;
  }

  // Halves what does not fit: sizes of buffers say nothing of pages that they share, and of what stored pointers lead to.
  bool add(const std::vector<std::size_t>& segment) {
    AccessList all;
    for (const std::size_t node : segment) all.join(accesses_[node]);
    if (fits(engines_, all)) {
      std::vector<CUgraphNode>& made = segments_.emplace_back();
      for (const std::size_t node : segment) made.push_back(nodes_[node]);
      return true;
    }
    if (segment.size() == 1) return false;
    const auto middle = segment.begin() + static_cast<std::ptrdiff_t>(segment.size() / 2);
    return add({segment.begin(), middle}) && add({middle, segment.end()});
  }

  const EngineSet& engines_;
  const KeptGraph& kept_;
  std::vector<CUgraphNode> nodes_;
  std::unordered_map<CUgraphNode, std::size_t> index_;
  std::vector<AccessList> accesses_;
  std::vector<CutNode> order_;
  std::map<std::tuple<const ActiveEngine*, std::uint64_t, std::uint64_t>, std::size_t> numbers_;
  std::vector<std::vector<CUgraphNode>> segments_;
};

// Makes the segment of these nodes: a copy of the kept graph without the others. Whatever it has made before it fails is
// the segment's.
bool copy_nodes(const KeptGraph& kept, const std::vector<CUgraphNode>& all, const std::vector<CUgraphNode>& nodes,
                GraphSegment* segment) {
  if (real<Function::cuGraphClone>(&segment->graph, kept.graph) != CUDA_SUCCESS) {
    segment->graph = nullptr;
    return false;
  }
  for (const CUgraphNode node : all) {
    CUgraphNode copy = nullptr;
    if (real<Function::cuGraphNodeFindInClone>(&copy, node, segment->graph) != CUDA_SUCCESS) return false;
    segment->nodes[node] = copy;
  }
  std::unordered_map<CUgraphNode, CUgraphNode> stays;
  for (const CUgraphNode node : nodes) stays.insert(segment->nodes.extract(node));
  for (const auto& [node, copy] : segment->nodes) {
    if (real<Function::cuGraphDestroyNode>(copy) != CUDA_SUCCESS) return false;
  }
  segment->nodes = std::move(stays);
  return true;
}

// Adds how many of the disabled nodes the segment has.
bool disable_nodes(const KeptGraph& kept, const GraphContents& contents, const GraphSegment& segment,
                   std::size_t* disabled) {
  for (const CUgraphNode node : kept.disabled) {
    CUgraphNode copy = nullptr;
    if (real<Function::cuGraphNodeFindInClone>(&copy, node, segment.graph) != CUDA_SUCCESS) continue;
    if (!contents.contains(copy)) continue;
    if (real<Function::cuGraphNodeSetEnabled>(segment.exec, copy, 0u) != CUDA_SUCCESS) return false;
    graph_node_enabled(segment.exec, copy, false);
    ++*disabled;
  }
  return true;
}

bool instantiate(const EngineSet& engines, const KeptGraph& kept, GraphSegment* segment, std::size_t* disabled) {
  const CUresult result = with_driver_room(
      [&] { return heard(real<Function::cuGraphInstantiateWithFlags>(&segment->exec, segment->graph, kept.flags)); });
  if (result != CUDA_SUCCESS) {
    segment->exec = nullptr;
    return false;
  }
  GraphContents contents = contents_of(&engines, segment->graph);
  graph_instantiated(segment->exec, contents, false);
  return disable_nodes(kept, contents, *segment, disabled);
}

}  // namespace

bool segments_fit(const KeptGraph& kept) {
  const HeldEngines engines;
  return engines.none() || std::ranges::all_of(kept.segments, [&](const GraphSegment& segment) {
           GraphAccess access = access_of(segment.exec);
           add_tables_in_place(*engines, access.words_in_place, &access.accesses);
           return access.is_known && fits(*engines, access.accesses);
         });
}

const char* cut_into_segments(KeptGraph& kept) {
  const HeldEngines engines;
  kept.drop_segments();
  if (engines.none()) return kOneNode;
  Plan plan(*engines, kept);
  if (const char* const obstacle = plan.make(); obstacle != nullptr) return obstacle;
  std::vector<CUgraphNode> all;
  for (const std::vector<CUgraphNode>& nodes : plan.segments()) all.insert(all.end(), nodes.begin(), nodes.end());
  std::size_t disabled = 0;
  kept.segments.reserve(plan.segments().size());
  for (const std::vector<CUgraphNode>& nodes : plan.segments()) {
    GraphSegment& segment = kept.segments.emplace_back();
    if (copy_nodes(kept, all, nodes, &segment) && instantiate(*engines, kept, &segment, &disabled)) continue;
    kept.drop_segments();
    return kNotInstantiated;
  }
  if (disabled != kept.disabled.size()) {
    kept.drop_segments();
    return kLostNode;
  }
  count(Counter::kCutGraphs);
  THERMOCLINE_LOG_ONCE(LogLevel::kInfo,
                       "a CUDA graph of %zu nodes does not fit in the budget: it is launched in %zu parts", all.size(),
                       kept.segments.size());
  return nullptr;
}

}  // namespace thermocline
