// SPDX-License-Identifier: Apache-2.0
#include "hooks/graphs/kept_graphs.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "driver/locks.h"
#include "hooks/capture/capture_state.h"
#include "hooks/graphs/graph_execs.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/submit/multi_device.h"

namespace thermocline {
namespace {

// A graph that names less than a quarter of the budget, with all that is pinned, is not kept: a copy costs host memory and
// time for each node.
constexpr Bytes kShareKept = 4;

struct KeptGraphs {
  Mutex mutex{"kept graphs", lock_level::kLeaf};
  std::unordered_map<CUgraphExec, std::shared_ptr<KeptGraph>> all THERMOCLINE_GUARDED_BY(mutex);
  std::atomic<bool> any{false};
};
KeptGraphs& kept_graphs() { return process_lifetime<KeptGraphs>(); }

std::shared_ptr<KeptGraph> exchange(CUgraphExec exec, std::shared_ptr<KeptGraph> now) {
  KeptGraphs& known = kept_graphs();
  const MutexLock lock(known.mutex);
  if (now != nullptr) {
    known.any.store(true, std::memory_order_relaxed);
    return std::exchange(known.all[exec], std::move(now));
  }
  const auto found = known.all.find(exec);
  if (found == known.all.end()) return nullptr;
  std::shared_ptr<KeptGraph> before = std::move(found->second);
  known.all.erase(found);
  return before;
}

// Nodes that do the same in a graph of their own, behind what they depended on. Not: what a thread of the program may have
// to let go on while it waits in the launch, and what belongs to one graph.
const char* obstacle_of(const NodeContents& node) {
  if (!node.is_known) return "a node whose memory can not be read";
  if (node.is_of_nccl) return "a kernel of NCCL";
  switch (node.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return nullptr;
    case CU_GRAPH_NODE_TYPE_HOST:
      return "a host node";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "a node that allocates or frees memory";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return "a conditional node";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return "a node that waits for values or writes them";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return "a node with external semaphores";
    default:
      return "a node of an unknown kind";
  }
}

const char* obstacle_of(const GraphContents& contents) {
  for (const auto& [node, one] : contents) {
    if (const char* const obstacle = obstacle_of(one); obstacle != nullptr) return obstacle;
  }
  return nullptr;
}

// After a change: launches ask the engine.
constexpr Bytes kUnknownSize = ~Bytes{0};

// Changes of child graphs may leave what the executable graph names unknown (graph_execs.h). The copy knows.
bool may_become_ambiguous(const GraphContents& contents) {
  return std::ranges::count_if(contents, [](const auto& one) { return one.second.type == CU_GRAPH_NODE_TYPE_GRAPH; }) >
         1;
}

// 0: too little to be kept.
Bytes named_if_much(const GraphContents& contents) {
  const HeldEngines engines;
  if (engines.none() || Runtime::get().broken()) return 0;
  AccessList accesses;
  for (const auto& [node, one] : contents) {
    for (const MemoryAccess& access : one.accesses) accesses.add(access);
  }
  Bytes most = may_become_ambiguous(contents) ? kUnknownSize : 0;
  for (const ActiveEngine* active : *engines) {
    const AccessList part = part_of(accesses, *active);
    if (part.empty()) continue;
    const Demand demand = active->engine->demand_of(part.all());
    if (demand.takes_turns && demand.bytes + demand.stays >= demand.budget / kShareKept)
      most = std::max(most, demand.bytes + demand.stays);
  }
  return most;
}

// False: the driver does not copy such a graph, or does not find a node in the copy.
bool copy_graph(CUgraph graph, KeptGraph* kept) {
  std::vector<CUgraphNode> nodes;
  if (!nodes_of(graph, &nodes)) return false;
  if (real<Function::cuGraphClone>(&kept->graph, graph) != CUDA_SUCCESS) {
    kept->graph = nullptr;
    return false;
  }
  for (const CUgraphNode node : nodes) {
    CUgraphNode twin = nullptr;
    if (real<Function::cuGraphNodeFindInClone>(&twin, node, kept->graph) != CUDA_SUCCESS) return false;
    kept->twins[node] = twin;
  }
  return true;
}

// The copy of a node; also of one within a child graph, if the driver finds it.
CUgraphNode twin_of(const KeptGraph& kept, CUgraphNode node) {
  if (const auto found = kept.twins.find(node); found != kept.twins.end()) return found->second;
  CUgraphNode twin = nullptr;
  return real<Function::cuGraphNodeFindInClone>(&twin, node, kept.graph) == CUDA_SUCCESS ? twin : nullptr;
}

template <class Neighbours>
bool neighbours(Neighbours ask, CUgraphNode node, std::vector<CUgraphNode>* out) {
  std::size_t count = 0;
  if (ask(node, nullptr, &count) != CUDA_SUCCESS) return false;
  out->resize(count);
  return count == 0 || ask(node, out->data(), &count) == CUDA_SUCCESS;
}

// The child graph of a node can not be replaced (cuda.h): the node is. An error where edges say more than order.
CUgraphNode replace_child(CUgraph graph, CUgraphNode node, CUgraph child) {
  std::vector<CUgraphNode> before, behind;
  CUgraphNode made = nullptr;
  if (!neighbours(&real<Function::cuGraphNodeGetDependencies, CUgraphNode, CUgraphNode*, std::size_t*>, node,
                  &before) ||
      !neighbours(&real<Function::cuGraphNodeGetDependentNodes, CUgraphNode, CUgraphNode*, std::size_t*>, node,
                  &behind))
    return nullptr;
  if (real<Function::cuGraphAddChildGraphNode>(&made, graph, before.data(), before.size(), child) != CUDA_SUCCESS)
    return nullptr;
  const std::vector<CUgraphNode> from(behind.size(), made);
  if (!behind.empty() &&
      real<Function::cuGraphAddDependencies>(graph, from.data(), behind.data(), behind.size()) != CUDA_SUCCESS)
    return nullptr;
  return real<Function::cuGraphDestroyNode>(node) == CUDA_SUCCESS ? made : nullptr;
}

constexpr const char* kNotRepeated = "a node whose change could not be repeated";
constexpr const char* kDisabled = "a node that was disabled when the graph was updated";
constexpr const char* kNamesLittle = "its size when it was updated, less than a quarter of the budget";

// Changes the copy; whatever fails, the graph is not cut any more.
template <class Body>
void change_kept(CUgraphExec exec, Body body) noexcept {
  if (!kept_graphs().any.load(std::memory_order_relaxed)) return;
  const CUresult result = guarded([&] {
    const std::shared_ptr<KeptGraph> kept = kept_graph(exec);
    if (kept == nullptr || kept->obstacle != nullptr) return CUDA_SUCCESS;
    const CaptureTruce truce;
    if (!body(*kept)) kept->give_up(kNotRepeated);
    return CUDA_SUCCESS;
  });
  if (result != CUDA_SUCCESS) give_up_kept_graph(exec);
}

template <class Visit>
void for_segment_of(KeptGraph& kept, CUgraphNode twin, Visit visit) {
  for (GraphSegment& segment : kept.segments) {
    const auto found = segment.nodes.find(twin);
    if (found == segment.nodes.end()) continue;
    if (!visit(segment.exec, found->second)) kept.drop_segments();
    return;
  }
  // Within a child graph: which segment has it is not known.
  kept.drop_segments();
}

}  // namespace

void destroy_segments(std::vector<GraphSegment>* segments) noexcept {
  for (const GraphSegment& segment : *segments) {
    graph_exec_destroyed(segment.exec);
    if (segment.exec != nullptr) real<Function::cuGraphExecDestroy>(segment.exec);
    if (segment.graph != nullptr) real<Function::cuGraphDestroy>(segment.graph);
  }
  segments->clear();
}

KeptGraph::~KeptGraph() {
  const CaptureTruce truce;
  destroy_segments(&segments);
  if (graph != nullptr) real<Function::cuGraphDestroy>(graph);
  if (newest != nullptr) real<Function::cuEventDestroy_v2>(newest);
}

void KeptGraph::drop_segments() noexcept {
  const CaptureTruce truce;
  destroy_segments(&segments);
}

void KeptGraph::give_up(const char* why) noexcept {
  obstacle = why;
  drop_segments();
}

// Other executable graphs may have the segments' handles by now.
void KeptGraph::abandon() noexcept {
  segments.clear();
  graph = nullptr;
  newest = nullptr;
}

void keep_graph(CUgraphExec exec, CUgraph graph, const GraphContents& contents, unsigned long long flags,
                bool is_update) noexcept {
  const CUresult result = guarded([&] {
    const CaptureTruce truce;
    if (!is_update) {
      // A copy of an earlier executable graph with this handle, which ended unseen with its context.
      if (const auto stale = exchange(exec, nullptr); stale != nullptr) stale->abandon();
    }
    const std::shared_ptr<KeptGraph> before = kept_graph(exec);
    const bool was_in_parts = before != nullptr && before->newest != nullptr;
    const Bytes named = named_if_much(contents);
    if (named == 0 && !was_in_parts) {
      exchange(exec, nullptr);
      return CUDA_SUCCESS;
    }
    auto kept = std::make_shared<KeptGraph>();
    kept->named = named;
    kept->flags = before != nullptr ? before->flags : flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    static_cast<void>(real<Function::cuCtxGetCurrent>(&kept->context));
    kept->obstacle = obstacle_of(contents);
    if (named == 0) kept->obstacle = kNamesLittle;
    if (is_update && may_have_disabled(exec)) kept->obstacle = kDisabled;
    if (kept->obstacle == nullptr && !copy_graph(graph, kept.get())) kept->obstacle = "a node that can not be copied";
    // The order of its launches goes on. Where nothing was kept, it may have been launched as a whole.
    kept->ran_whole = is_update && (before == nullptr || before->ran_whole);
    if (before != nullptr) kept->newest = std::exchange(before->newest, nullptr);
    exchange(exec, std::move(kept));
    return CUDA_SUCCESS;
  });
  if (result != CUDA_SUCCESS) give_up_kept_graph(exec);
}

std::shared_ptr<KeptGraph> kept_graph(CUgraphExec exec) {
  KeptGraphs& known = kept_graphs();
  if (!known.any.load(std::memory_order_relaxed)) return nullptr;
  const MutexLock lock(known.mutex);
  const auto found = known.all.find(exec);
  return found == known.all.end() ? nullptr : found->second;
}

void forget_kept_graph(CUgraphExec exec) noexcept {
  if (kept_graphs().any.load(std::memory_order_relaxed)) exchange(exec, nullptr);
}

void give_up_kept_graph(CUgraphExec exec) noexcept {
  if (const std::shared_ptr<KeptGraph> kept = kept_graph(exec); kept != nullptr) kept->give_up(kNotRepeated);
}

void forget_kept_graphs_in(CUcontext context, bool is_gone) noexcept {
  KeptGraphs& known = kept_graphs();
  if (!known.any.load(std::memory_order_relaxed)) return;
  for (;;) {
    std::shared_ptr<KeptGraph> ended;  // destroyed without the lock
    {
      const MutexLock lock(known.mutex);
      const auto found =
          std::ranges::find_if(known.all, [&](const auto& one) { return one.second->context == context; });
      if (found == known.all.end()) return;
      ended = std::move(found->second);
      known.all.erase(found);
    }
    if (is_gone) ended->abandon();
  }
}

void kept_node_set(CUgraphExec exec, CUgraphNode node, const NodeContents* contents,
                   const NodeChange& change) noexcept {
  change_kept(exec, [&](KeptGraph& kept) {
    const CUgraphNode twin = twin_of(kept, node);
    const bool is_cut = contents == nullptr || obstacle_of(*contents) == nullptr;
    if (twin == nullptr || !is_cut || change.in_graph(twin) != CUDA_SUCCESS) return false;
    kept.named = kUnknownSize;
    for_segment_of(kept, twin, [&](CUgraphExec of, CUgraphNode its) {
      if (change.in_exec(of, its) != CUDA_SUCCESS) return false;
      if (contents != nullptr) graph_node_set(of, its, *contents);
      return true;
    });
    return true;
  });
}

void kept_child_set(CUgraphExec exec, CUgraphNode node, CUgraph child, const GraphContents& contents) noexcept {
  change_kept(exec, [&](KeptGraph& kept) {
    const auto found = kept.twins.find(node);
    // Nodes of the former child may be disabled, and which of the new one's they are is not known.
    if (found == kept.twins.end() || obstacle_of(contents) != nullptr || kept.has_disabled_within) return false;
    const CUgraphNode made = replace_child(kept.graph, found->second, child);
    if (made == nullptr) return false;
    found->second = made;
    kept.named = kUnknownSize;
    kept.drop_segments();
    return true;
  });
}

void kept_node_enabled(CUgraphExec exec, CUgraphNode node, bool enabled) noexcept {
  change_kept(exec, [&](KeptGraph& kept) {
    const CUgraphNode twin = twin_of(kept, node);
    if (twin == nullptr) return false;
    kept.has_disabled_within |= !enabled && !kept.twins.contains(node);
    const bool has_changed = enabled ? kept.disabled.erase(twin) != 0 : kept.disabled.insert(twin).second;
    if (!has_changed) return true;
    for_segment_of(kept, twin, [&](CUgraphExec of, CUgraphNode its) {
      if (real<Function::cuGraphNodeSetEnabled>(of, its, enabled ? 1u : 0u) != CUDA_SUCCESS) return false;
      graph_node_enabled(of, its, enabled);
      return true;
    });
    return true;
  });
}

}  // namespace thermocline
