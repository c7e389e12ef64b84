// SPDX-License-Identifier: Apache-2.0
#include "simulator/cuda/graph/graph.h"

#include <algorithm>
#include <unordered_map>

namespace simulator::cuda {
namespace {

// Pointers into the node's own block of parameters.
void point_at_parameters(CUgraphNode_st* node) {
  node->parameters.clear();
  auto* const kernel = std::get_if<Kernel>(&node->work);
  if (kernel == nullptr) return;
  for (const Parameter& parameter : kernel->parameters)
    node->parameters.push_back(kernel->block_of_parameters.data() + parameter.offset);
}

// Destroys the graphs that the node owns.
void destroy_contents(State& state, const CUgraphNode_st& node) {
  if (node.child != nullptr) destroy_graph(state, node.child);
  for (CUgraph body : node.bodies) destroy_graph(state, body);
}

CUgraph clone_child(State& state, CUgraph graph) {
  CUgraph copy = clone_graph(state, graph);
  copy->is_child = true;
  return copy;
}

void keep_enable_state(const CUgraph_st& from, CUgraph to) {
  for (std::size_t i = 0; i < std::min(from.nodes.size(), to->nodes.size()); ++i) {
    to->nodes[i]->is_enabled = from.nodes[i]->is_enabled;
    if (from.nodes[i]->child != nullptr && to->nodes[i]->child != nullptr)
      keep_enable_state(*from.nodes[i]->child, to->nodes[i]->child);
  }
}

}  // namespace

CUgraph create_graph(State& state) {
  CUgraph graph = state.graphs.add({});
  graph->number = state.next_id++;
  return graph;
}

void destroy_graph(State& state, CUgraph graph) {
  for (CUgraphNode node : graph->nodes) {
    destroy_contents(state, *node);
    state.graph_nodes.remove(node);
  }
  state.graphs.remove(graph);
}

CUgraph clone_graph(State& state, CUgraph graph) {
  CUgraph copy = create_graph(state);
  copy->conditions = graph->conditions;
  std::unordered_map<CUgraphNode, CUgraphNode> twin;
  for (CUgraphNode node : graph->nodes) {
    CUgraphNode_st same;
    same.source = node;
    same.is_enabled = node->is_enabled;
    CUgraphNode added = add_node(state, copy, std::move(same), {});
    set_contents(state, added, *node);
    twin[node] = added;
  }
  for (CUgraphNode node : graph->nodes) {
    for (CUgraphNode before : node->after) twin[node]->after.push_back(twin[before]);
  }
  return copy;
}

CUgraphNode add_node(State& state, CUgraph graph, CUgraphNode_st node, Nodes after) {
  node.graph = graph;
  node.after.assign(after.begin(), after.end());
  CUgraphNode added = state.graph_nodes.add(std::move(node));
  point_at_parameters(added);
  graph->nodes.push_back(added);
  return added;
}

void destroy_node(State& state, CUgraphNode node) {
  for (CUgraphNode other : node->graph->nodes) std::erase(other->after, node);
  std::erase(node->graph->nodes, node);
  destroy_contents(state, *node);
  state.graph_nodes.remove(node);
}

bool are_nodes_of(const State& state, CUgraph graph, const CUgraphNode* nodes, std::size_t count) {
  if (nodes == nullptr) return count == 0;
  return std::all_of(nodes, nodes + count,
                     [&](CUgraphNode node) { return state.graph_nodes.has(node) && node->graph == graph; });
}

void set_contents(State& state, CUgraphNode node, const CUgraphNode_st& contents) {
  CUgraphNode_st old;
  old.child = node->child;
  old.bodies = std::move(node->bodies);
  node->type = contents.type;
  node->work = contents.work;
  node->device = contents.device;
  node->function = contents.function;
  node->copy = contents.copy;
  node->set = contents.set;
  node->host = contents.host;
  node->values = contents.values;
  node->value_operations = contents.value_operations;
  node->value_work = contents.value_work;
  node->event = contents.event;
  node->memory = contents.memory;
  point_at_parameters(node);
  node->child = contents.child == nullptr ? nullptr : clone_child(state, contents.child);
  if (old.child != nullptr && node->child != nullptr) keep_enable_state(*old.child, node->child);
  node->bodies.clear();
  for (CUgraph body : contents.bodies) node->bodies.push_back(clone_child(state, body));
  node->conditional = contents.conditional;
  node->conditional.phGraph_out = node->bodies.data();
  destroy_contents(state, old);
}

CUgraphNode find_in(const CUgraph_st& copy, const CUgraph_st* original_graph, const CUgraphNode_st* original) {
  for (CUgraphNode node : copy.nodes) {
    if (node->source == original) return node;
  }
  // Below nodes that contain graphs.
  for (CUgraphNode node : copy.nodes) {
    std::vector<CUgraph> inner = node->bodies;
    if (node->child != nullptr) inner.push_back(node->child);
    for (CUgraph graph : inner) {
      if (CUgraphNode found = find_in(*graph, original_graph, original)) return found;
    }
  }
  return nullptr;
}

std::vector<CUgraphNode> in_order(const CUgraph_st& graph) {
  std::unordered_map<CUgraphNode, std::size_t> waits_for;
  std::unordered_map<CUgraphNode, std::vector<std::size_t>> behind;
  std::vector<std::size_t> ready;
  const auto later = [](std::size_t a, std::size_t b) { return a > b; };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    CUgraphNode node = graph.nodes[i];
    waits_for[node] = node->after.size();
    for (CUgraphNode before : node->after) behind[before].push_back(i);
    if (node->after.empty()) ready.push_back(i);
  }
  std::make_heap(ready.begin(), ready.end(), later);
  std::vector<CUgraphNode> order;
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), later);
    CUgraphNode node = graph.nodes[ready.back()];
    ready.pop_back();
    order.push_back(node);
    for (const std::size_t i : behind[node]) {
      if (--waits_for[graph.nodes[i]] > 0) continue;
      ready.push_back(i);
      std::push_heap(ready.begin(), ready.end(), later);
    }
  }
  return order;
}

}  // namespace simulator::cuda
