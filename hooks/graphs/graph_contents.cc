// SPDX-License-Identifier: Apache-2.0
#include "hooks/graphs/graph_contents.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/nccl.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/operands/layouts.h"
#include "hooks/operands/values.h"
#include "hooks/pointers/tables_in_place.h"
#include "hooks/pointers/uploads.h"
#include "hooks/submit/kernels.h"
#include "hooks/submit/shapes.h"
#include "hooks/submit/stream_queues.h"

namespace thermocline {
namespace {

struct Bodies {
  struct ConditionalNode {
    CUgraph graph = nullptr;
    std::vector<CUgraph> bodies;
  };
  Mutex mutex{"contents of graphs", lock_level::kLeaf};
  std::map<CUgraphNode, ConditionalNode> by_node THERMOCLINE_GUARDED_BY(mutex);
  std::atomic<bool> any{false};
};
Bodies& all_bodies() { return process_lifetime<Bodies>(); }

std::vector<CUgraph> bodies_of(CUgraphNode node) {
  Bodies& all = all_bodies();
  const MutexLock lock(all.mutex);
  const auto found = all.by_node.find(node);
  return found == all.by_node.end() ? std::vector<CUgraph>() : found->second.bodies;
}

// False: the driver does not support the query.
bool ask_kernel(const EngineSet* engines, CUgraphNode node, NodeContents* out) {
  CUDA_KERNEL_NODE_PARAMS_v2 params{};
  if (real<Function::cuGraphKernelNodeGetParams_v2>(node, &params) == CUDA_SUCCESS) {
    *out = contents_of_kernel(engines, function_of(params), params.kernelParams, params.extra);
    return true;
  }
  // For drivers before CUDA 12.
  CUDA_KERNEL_NODE_PARAMS_v1 first{};
  if (real<Function::cuGraphKernelNodeGetParams>(node, &first) != CUDA_SUCCESS) return false;
  *out = contents_of_kernel(engines, first.func, first.kernelParams, first.extra);
  return true;
}

bool ask_copy(CUgraphNode node, AccessList* accesses) {
  CUDA_MEMCPY3D copy{};
  if (real<Function::cuGraphMemcpyNodeGetParams>(node, &copy) != CUDA_SUCCESS) return false;
  *accesses = shape_of(&copy).accesses;
  return true;
}

bool ask_set(CUgraphNode node, AccessList* accesses) {
  CUDA_MEMSET_NODE_PARAMS set{};
  if (real<Function::cuGraphMemsetNodeGetParams>(node, &set) != CUDA_SUCCESS) return false;
  add_set(accesses, set);
  return true;
}

bool ask_values(CUgraphNode node, AccessList* accesses) {
  CUDA_BATCH_MEM_OP_NODE_PARAMS values{};
  if (real<Function::cuGraphBatchMemOpNodeGetParams>(node, &values) != CUDA_SUCCESS) return false;
  add_value_operations(values.paramArray, values.count, accesses);
  return true;
}

// Empty if the driver does not tell: then the memory counts once the driver has allocated it.
GraphAllocation allocated_by(CUgraphNode node) {
  CUDA_MEM_ALLOC_NODE_PARAMS asked{};
  if (real<Function::cuGraphMemAllocNodeGetParams>(node, &asked) != CUDA_SUCCESS) return {};
  if (asked.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return {};
  return {asked.bytesize, asked.poolProps.location.id};
}

void keep_ours(const EngineSet* engines, AccessList* accesses) {
  accesses->filter([&](DeviceAddress at) { return engines != nullptr && engines->owner(at) != nullptr; });
}

bool ask(const EngineSet* engines, CUgraphNode node, CUgraphNodeType type, NodeContents* out) {
  AccessList accesses;
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return ask_kernel(engines, node, out);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (!ask_copy(node, &accesses)) return false;
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      if (!ask_set(node, &accesses)) return false;
      break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      if (!ask_values(node, &accesses)) return false;
      break;
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      note_streams_may_block();
      out->may_write_host = true;
      return true;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      out->may_write_host = true;
      return true;
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return true;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      out->allocates = allocated_by(node);
      return true;
    default:
      return false;
  }
  const std::size_t named = accesses.all().size();
  keep_ours(engines, &accesses);
  out->take(accesses);
  // Copies are known by their ranges.
  out->may_write_host = type != CU_GRAPH_NODE_TYPE_MEMCPY && accesses.all().size() != named;
  return true;
}

// Graphs within the node; false: they cannot be determined.
bool graphs_in(CUgraphNode node, CUgraphNodeType type, std::vector<CUgraph>* out) {
  if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    *out = bodies_of(node);
    return !out->empty();
  }
  if (type != CU_GRAPH_NODE_TYPE_GRAPH) return true;
  CUgraph child = nullptr;
  if (real<Function::cuGraphChildGraphNodeGetGraph>(node, &child) != CUDA_SUCCESS) return false;
  out->push_back(child);
  return true;
}

bool depends_on_none(const GraphContents& all, CUgraphNode node) {
  std::size_t count = 0;
  if (real<Function::cuGraphNodeGetDependencies>(node, nullptr, &count) != CUDA_SUCCESS) return false;
  std::vector<CUgraphNode> before(count);
  if (count != 0 && real<Function::cuGraphNodeGetDependencies>(node, before.data(), &count) != CUDA_SUCCESS)
    return false;
  return std::ranges::all_of(before, [&](CUgraphNode one) {
    const auto found = all.find(one);
    return found != all.end() && found->second.comes_first;
  });
}

// Marks the copies of the graph itself to the device that run before everything else. A copy that writes host memory
// may change the source of the next one.
void note_what_comes_first(GraphContents* all) {
  std::vector<CUgraphNode> copies;
  for (const auto& [node, contents] : *all) {
    const bool is_plain = contents.parent == nullptr && contents.is_known && !contents.moves.empty();
    if (is_plain && !contents.may_write_host && !is_host_memory(contents.moves.front().to)) copies.push_back(node);
  }
  for (bool any = true; any;) {
    any = false;
    for (const CUgraphNode node : copies) {
      NodeContents& contents = (*all)[node];
      if (contents.comes_first || !depends_on_none(*all, node)) continue;
      contents.comes_first = any = true;
    }
  }
}

void add_graph(const EngineSet* engines, CUgraph graph, CUgraphNode parent, GraphContents* out) {
  std::vector<CUgraphNode> nodes;
  // If the nodes of a child graph are unknown, its parent node may access anything.
  if (!nodes_of(graph, &nodes)) (*out)[parent].is_known = false;
  for (const CUgraphNode node : nodes) {
    auto type = CU_GRAPH_NODE_TYPE_EMPTY;
    std::vector<CUgraph> within;
    NodeContents contents;
    const bool has_type = real<Function::cuGraphNodeGetType>(node, &type) == CUDA_SUCCESS;
    const bool holds_graphs = type == CU_GRAPH_NODE_TYPE_GRAPH || type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
    contents.is_known = has_type && graphs_in(node, type, &within) &&
                        (holds_graphs || ask(engines, node, type, &contents)) && contents.is_known;
    contents.parent = parent;
    contents.type = type;
    (*out)[node] = std::move(contents);
    for (const CUgraph inner : within) add_graph(engines, inner, node, out);
  }
}

}  // namespace

void NodeContents::take(const AccessList& list) {
  accesses.assign(list.all().begin(), list.all().end());
  moves.assign(list.moves().begin(), list.moves().end());
}

bool nodes_of(CUgraph graph, std::vector<CUgraphNode>* out) {
  std::size_t count = 0;
  if (real<Function::cuGraphGetNodes>(graph, static_cast<CUgraphNode*>(nullptr), &count) != CUDA_SUCCESS) return false;
  out->resize(count);
  return count == 0 || real<Function::cuGraphGetNodes>(graph, out->data(), &count) == CUDA_SUCCESS;
}

CUfunction function_of(const CUDA_KERNEL_NODE_PARAMS_v1& node) { return node.func; }

GraphContents contents_of(const EngineSet* engines, CUgraph graph) {
  GraphContents all;
  add_graph(engines, graph, nullptr, &all);
  note_what_comes_first(&all);
  return all;
}

NodeContents contents_of_kernel(const EngineSet* engines, CUfunction function, void* const* parameters,
                                void* const* extra) {
  NodeContents contents;
  contents.is_kernel = true;
  if (engines == nullptr) return contents;
  AccessList accesses;
  if (parameters != nullptr || extra != nullptr) {
    const Layouts::Facts& facts = layouts().facts(function);
    contents.name = facts.name;
    contents.stores_pointers = facts.operator_class == OperatorClass::kTables;
    contents.is_of_nccl = facts.is_of_nccl;
    // The buffers that NCCL uses in a graph are pinned, once its calls are seen (hooks/nccl).
    if (!facts.is_of_nccl || !InNccl::ever())
      contents.words_in_place = words_in_place(facts.layout, {parameters, extra});
  }
  contents.is_known = add_arguments(*engines, function, {parameters, extra}, &accesses);
  keep_ours(engines, &accesses);
  contents.take(accesses);
  return contents;
}

void add_node(const CUgraphNodeParams& params, AccessList* accesses) {
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      *accesses = shape_of(&params.memcpy.copyParams).accesses;
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      add_write(accesses, params.memset.dst,
                Box{.width = params.memset.width * params.memset.elementSize,
                    .rows = params.memset.height,
                    .pitch = params.memset.pitch});
      break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      add_value_operations(params.memOp.paramArray, params.memOp.count, accesses);
      break;
    default:
      break;
  }
}

NodeContents contents_of(const EngineSet* engines, const CUgraphNodeParams& params) {
  if (params.type == CU_GRAPH_NODE_TYPE_KERNEL)
    return contents_of_kernel(engines, function_of(params.kernel), params.kernel.kernelParams, params.kernel.extra);
  AccessList accesses;
  add_node(params, &accesses);
  keep_ours(engines, &accesses);
  NodeContents contents;
  contents.take(accesses);
  return contents;
}

void remember_bodies(CUgraph graph, CUgraphNode node, std::span<const CUgraph> bodies) {
  Bodies& all = all_bodies();
  const MutexLock lock(all.mutex);
  all.by_node[node] = {graph, {bodies.begin(), bodies.end()}};
  all.any.store(true, std::memory_order_relaxed);
}

void forget_bodies_of(CUgraphNode node) {
  Bodies& all = all_bodies();
  if (!all.any.load(std::memory_order_relaxed)) return;
  std::vector<CUgraph> within = bodies_of(node);
  {
    const MutexLock lock(all.mutex);
    all.by_node.erase(node);
  }
  for (const CUgraph body : within) forget_bodies_in(body);
}

void forget_bodies_in(CUgraph graph) {
  Bodies& all = all_bodies();
  if (!all.any.load(std::memory_order_relaxed)) return;
  std::vector<CUgraphNode> nodes;
  {
    const MutexLock lock(all.mutex);
    for (const auto& [node, known] : all.by_node) {
      if (known.graph == graph) nodes.push_back(node);
    }
  }
  for (const CUgraphNode node : nodes) forget_bodies_of(node);
}

}  // namespace thermocline
