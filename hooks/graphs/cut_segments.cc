// SPDX-License-Identifier: Apache-2.0
#include "hooks/graphs/cut_segments.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "hooks/graphs/cut_order.h"
#include "hooks/graphs/cut_parts.h"
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

bool fits(const EngineSet& engines, const AccessList& accesses) {
  return std::ranges::all_of(engines, [&](const ActiveEngine* active) {
    const AccessList part = part_of(accesses, *active);
    return part.empty() || active->engine->demand_of(part.all()).may_fit();
  });
}

class Plan {
 public:
  Plan(const EngineSet& engines, const KeptGraph& kept, const CutParts& parts)
      : engines_(engines), kept_(kept), parts_(parts), nodes_(parts.all()) {}

  // Null: the segments are known.
  const char* make() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) index_[nodes_[i]] = i;
    accesses_.resize(nodes_.size());
    order_.resize(nodes_.size());
    collect_accesses();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      number_uses(i);
      for (const CUgraphNode one : parts_.before(nodes_[i])) order_[i].after.push_back(index_.at(one));
    }
    for (const std::vector<std::size_t>& segment : cut_in_order(order_, room() / kSegmentsAtOnce)) {
      if (!add(segment)) return kOneNode;
    }
    return nullptr;
  }

  const std::vector<std::vector<CUgraphNode>>& segments() const { return segments_; }

 private:
  // Accesses within a child graph that stays whole count for its node.
  void collect_accesses() {
    const GraphContents contents = contents_of(&engines_, kept_.graph);
    for (const auto& [node, one] : contents) {
      const CUgraphNode part = parts_.part_with(node, contents);
      if (part == nullptr || is_disabled(node, contents)) continue;
      AccessList& list = accesses_[index_.at(part)];
      for (const MemoryAccess& access : one.accesses) list.add(access);
      add_tables_in_place(engines_, one.words_in_place, &list);
    }
  }

  bool is_disabled(CUgraphNode node, const GraphContents& contents) const {
    for (; node != nullptr; node = contents.at(node).parent) {
      if (kept_.disabled.contains(node)) return true;
    }
    return false;
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
  const CutParts& parts_;
  const std::vector<CUgraphNode>& nodes_;
  std::unordered_map<CUgraphNode, std::size_t> index_;
  std::vector<AccessList> accesses_;
  std::vector<CutNode> order_;
  std::map<std::tuple<const ActiveEngine*, std::uint64_t, std::uint64_t>, std::size_t> numbers_;
  std::vector<std::vector<CUgraphNode>> segments_;
};

// Makes the segment of these nodes: a copy of the kept graph without the others. Whatever it has made before it fails is
// the segment's.
bool copy_nodes(const KeptGraph& kept, const CutParts& parts, GraphSegment* segment) {
  if (real<Function::cuGraphClone>(&segment->graph, kept.graph) != CUDA_SUCCESS) {
    segment->graph = nullptr;
    return false;
  }
  std::unordered_set<CUgraphNode> stays;
  for (const CUgraphNode node : segment->parts) {
    for (CUgraphNode one = node; one != nullptr; one = parts.parent(one)) stays.insert(one);
  }
  std::vector<CUgraphNode> others;
  const auto find = [&](CUgraphNode node) {
    CUgraphNode copy = nullptr;
    if (real<Function::cuGraphNodeFindInClone>(&copy, node, segment->graph) != CUDA_SUCCESS) return false;
    if (!stays.contains(node)) {
      others.push_back(copy);
    } else if (parts.parent(node) == nullptr) {
      segment->nodes[node] = copy;
    }
    return true;
  };
  return std::ranges::all_of(parts.all(), find) && std::ranges::all_of(parts.opened(), find) &&
         std::ranges::all_of(others,
                             [](CUgraphNode copy) { return real<Function::cuGraphDestroyNode>(copy) == CUDA_SUCCESS; });
}

// Whether the driver shows none of the nodes that were taken out.
bool has_only_its_parts(const GraphSegment& segment, const CutParts& parts, const GraphContents& contents) {
  std::size_t count = 0;
  for (const auto& [node, one] : contents) {
    const bool is_within_a_whole_one = one.parent != nullptr && parts.are_whole();
    const bool is_opened = !parts.are_whole() && one.type == CU_GRAPH_NODE_TYPE_GRAPH && has_nodes_within(node);
    count += is_within_a_whole_one || is_opened ? 0 : 1;
  }
  return count == segment.parts.size();
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

bool instantiate(const EngineSet& engines, const KeptGraph& kept, const CutParts& parts, GraphSegment* segment,
                 std::size_t* disabled) {
  GraphContents contents = contents_of(&engines, segment->graph);
  if (!has_only_its_parts(*segment, parts, contents)) return false;
  const CUresult result = with_driver_room(
      [&] { return heard(real<Function::cuGraphInstantiateWithFlags>(&segment->exec, segment->graph, kept.flags)); });
  if (result != CUDA_SUCCESS) {
    segment->exec = nullptr;
    return false;
  }
  graph_instantiated(segment->exec, contents, false);
  return disable_nodes(kept, contents, *segment, disabled);
}

// Segments that are the graph's once all of them are made. What is left here, also after an exception, is destroyed.
struct NewSegments {
  NewSegments() = default;
  ~NewSegments() { destroy_segments(&all); }
  NewSegments(const NewSegments&) = delete;
  NewSegments& operator=(const NewSegments&) = delete;

  std::vector<GraphSegment> all;
};

// Null: it has segments. Else it has none, as before.
const char* cut(const EngineSet& engines, KeptGraph& kept, CutParts::ChildGraphs children, bool* any_opened) {
  CutParts parts(children);
  if (const char* const obstacle = parts.list(kept.graph); obstacle != nullptr) return obstacle;
  *any_opened = !parts.opened().empty();
  Plan plan(engines, kept, parts);
  if (const char* const obstacle = plan.make(); obstacle != nullptr) return obstacle;
  kept.children_are_whole = children == CutParts::ChildGraphs::kWhole;
  std::size_t disabled = 0;
  NewSegments made;
  made.all.reserve(plan.segments().size());
  for (const std::vector<CUgraphNode>& nodes : plan.segments()) {
    GraphSegment& segment = made.all.emplace_back();
    segment.parts = nodes;
    if (!copy_nodes(kept, parts, &segment) || !instantiate(engines, kept, parts, &segment, &disabled))
      return kNotInstantiated;
  }
  if (disabled != kept.disabled.size()) return kLostNode;
  kept.segments.swap(made.all);
  return nullptr;
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
  bool any_opened = false;
  const char* obstacle = cut(*engines, kept, CutParts::ChildGraphs::kOpened, &any_opened);
  // The driver may not take nodes out of the child graphs of a copy.
  if (any_opened && (obstacle == kNotInstantiated || obstacle == kLostNode))
    obstacle = cut(*engines, kept, CutParts::ChildGraphs::kWhole, &any_opened);
  if (obstacle != nullptr) return obstacle;
  count(Counter::kCutGraphs);
  THERMOCLINE_LOG_ONCE(LogLevel::kInfo, "a CUDA graph does not fit in the budget: it is launched in %zu parts",
                       kept.segments.size());
  return nullptr;
}

bool halve_segment(KeptGraph& kept, std::size_t at) {
  const HeldEngines engines;
  const std::vector<CUgraphNode> nodes = kept.segments[at].parts;
  if (engines.none() || nodes.size() < 2) return false;
  CutParts parts(kept.children_are_whole ? CutParts::ChildGraphs::kWhole : CutParts::ChildGraphs::kOpened);
  if (parts.list(kept.graph) != nullptr) return false;
  const auto middle = nodes.begin() + static_cast<std::ptrdiff_t>(nodes.size() / 2);
  NewSegments halves;
  halves.all.resize(2);
  halves.all[0].parts.assign(nodes.begin(), middle);
  halves.all[1].parts.assign(middle, nodes.end());
  std::size_t disabled = 0;
  const bool made = std::ranges::all_of(halves.all, [&](GraphSegment& half) {
    return copy_nodes(kept, parts, &half) && instantiate(*engines, kept, parts, &half, &disabled);
  });
  const auto had = std::ranges::count_if(nodes, [&](CUgraphNode node) { return kept.disabled.contains(node); });
  if (!made || disabled != static_cast<std::size_t>(had)) return false;
  // Nothing may fail between the two: the graph would have one half only.
  kept.segments.reserve(kept.segments.size() + 1);
  std::swap(kept.segments[at], halves.all[0]);
  kept.segments.insert(kept.segments.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                       std::exchange(halves.all[1], GraphSegment()));
  return true;
}

}  // namespace thermocline
