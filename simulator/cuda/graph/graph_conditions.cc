// SPDX-License-Identifier: Apache-2.0
#include "simulator/cuda/graph/graph_conditions.h"

#include <algorithm>
#include <set>
#include <utility>

#include "simulator/cuda/memory/transfer.h"

namespace simulator::cuda {
namespace {

constexpr Branching branching_of(CUgraphConditionalNodeType type) {
  return type == CU_GRAPH_COND_TYPE_IF      ? Branching::kIf
         : type == CU_GRAPH_COND_TYPE_WHILE ? Branching::kWhile
                                            : Branching::kSwitch;
}

bool is_size(CUgraphConditionalNodeType type, unsigned size) {
  switch (type) {
    case CU_GRAPH_COND_TYPE_IF:
      return size == 1 || size == 2;
    case CU_GRAPH_COND_TYPE_WHILE:
      return size == 1;
    case CU_GRAPH_COND_TYPE_SWITCH:
      return size > 0;
    default:
      return false;
  }
}

template <typename Visit>
void for_graphs(const CUgraph_st& graph, Visit visit) {
  visit(graph);
  for (const CUgraphNode node : graph.nodes) {
    if (node->child != nullptr) for_graphs(*node->child, visit);
    for (const CUgraph body : node->bodies) for_graphs(*body, visit);
  }
}

const GraphCondition* find_condition(State& state, CUgraphConditionalHandle handle) {
  const GraphCondition* found = nullptr;
  state.graphs.for_each([&](const CUgraph_st& graph) {
    const auto known = graph.conditions.find(handle);
    if (known != graph.conditions.end()) found = &known->second;
  });
  return found;
}

bool is_used(State& state, CUgraphConditionalHandle handle) {
  bool found = false;
  state.graph_nodes.for_each([&](const CUgraphNode_st& node) {
    found |= node.type == CU_GRAPH_NODE_TYPE_CONDITIONAL && node.conditional.handle == handle;
  });
  return found;
}

// CUDA driver API, CUDA_CONDITIONAL_NODE_PARAMS; CUDA Programming Guide, "Conditional Graph Nodes".
bool may_be_in_a_body(Machine& machine, const CUgraphNode_st& node) {
  switch (node.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return true;
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      const Copy& copy = std::get<Copy>(node.work);
      return memory_kind_at(machine, copy.from) != MemoryKind::kPageable &&
             memory_kind_at(machine, copy.to) != MemoryKind::kPageable;
    }
    default:
      return false;
  }
}

void add_steps(const CUgraph_st& graph, const std::shared_ptr<Conditions>& conditions, DeviceId device, Body& body) {
  for (const CUgraphNode node : in_order(graph)) {
    if (node->child != nullptr) {
      add_steps(*node->child, conditions, device, body);
    } else if (node->is_enabled && node->type != CU_GRAPH_NODE_TYPE_EMPTY) {
      body.push_back({work_of(*node, conditions), node->device.value_or(device)});
    }
  }
}

Work branch(const CUgraphNode_st& node, const std::shared_ptr<Conditions>& conditions) {
  auto made = std::make_shared<ConditionalNode>();
  made->branching = branching_of(node.conditional.type);
  made->handle = node.conditional.handle;
  made->conditions = conditions;
  for (const CUgraph body : node.bodies)
    add_steps(*body, conditions, node.device.value_or(0), made->bodies.emplace_back());
  return Conditional{std::move(made)};
}

}  // namespace

bool has_conditional_nodes(const CUgraph_st& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](CUgraphNode node) { return node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL; });
}

CUresult make_conditional_node(Call& call, const CUDA_CONDITIONAL_NODE_PARAMS& given, CUgraphNode_st* out) {
  const GraphCondition* const condition = find_condition(call.state(), given.handle);
  const CUcontext context = given.ctx != nullptr ? given.ctx : call.context();
  if (condition == nullptr || condition->context != context || !is_size(given.type, given.size) ||
      is_used(call.state(), given.handle))
    return CUDA_ERROR_INVALID_VALUE;
  out->type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  out->device = context->device;
  out->conditional = given;
  return CUDA_SUCCESS;
}

void add_bodies(State& state, CUgraphNode node) {
  for (unsigned i = 0; i < node->conditional.size; ++i) {
    node->bodies.push_back(create_graph(state));
    node->bodies.back()->is_child = true;
  }
  node->conditional.phGraph_out = node->bodies.data();
}

CUgraphInstantiateResult check_conditions(Machine& machine, const CUgraph_st& graph) {
  std::set<CUgraphConditionalHandle> known, used;
  bool all_may = true;
  for_graphs(graph, [&](const CUgraph_st& each) {
    for (const auto& [handle, condition] : each.conditions) known.insert(handle);
    for (const CUgraphNode node : each.nodes) {
      if (node->type != CU_GRAPH_NODE_TYPE_CONDITIONAL) continue;
      used.insert(node->conditional.handle);
      for (const CUgraph body : node->bodies) {
        for_graphs(*body, [&](const CUgraph_st& inner) {
          all_may &= std::all_of(inner.nodes.begin(), inner.nodes.end(),
                                 [&](CUgraphNode step) { return may_be_in_a_body(machine, *step); });
        });
      }
    }
  });
  if (!all_may) return CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
  return known == used ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
}

std::shared_ptr<Conditions> conditions_of(const CUgraph_st& graph) {
  auto values = std::make_shared<Conditions>();
  for_graphs(graph, [&](const CUgraph_st& each) {
    for (const auto& [handle, condition] : each.conditions) (*values)[handle] = 0;
  });
  return values->empty() ? nullptr : values;
}

Work default_conditions(const CUgraph_st& graph, std::shared_ptr<Conditions> conditions) {
  Conditions defaults;
  for_graphs(graph, [&](const CUgraph_st& each) {
    for (const auto& [handle, condition] : each.conditions) {
      if (condition.has_default) defaults[handle] = condition.value;
    }
  });
  return Internal{[defaults, conditions = std::move(conditions)] {
    for (const auto& [handle, value] : defaults) (*conditions)[handle] = value;
  }};
}

Work work_of(const CUgraphNode_st& node, const std::shared_ptr<Conditions>& conditions) {
  if (node.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) return branch(node, conditions);
  Work work = node.work;
  if (auto* const kernel = std::get_if<Kernel>(&work)) kernel->conditions = conditions;
  return work;
}

}  // namespace simulator::cuda

using namespace simulator;
using namespace simulator::cuda;

SIMULATED_API CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph graph, CUcontext context,
                                                      unsigned value, unsigned flags) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || !call.state().graphs.has(graph) || (flags & ~unsigned{CU_GRAPH_COND_ASSIGN_DEFAULT}) != 0 ||
      (context != nullptr && !call.state().contexts.has(context)))
    return CUDA_ERROR_INVALID_VALUE;
  GraphCondition condition;
  condition.context = context != nullptr ? context : call.context();
  condition.value = value;
  condition.has_default = (flags & CU_GRAPH_COND_ASSIGN_DEFAULT) != 0;
  *out = call.state().next_id++;
  graph->conditions[*out] = condition;
  return CUDA_SUCCESS;
}
