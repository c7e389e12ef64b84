// SPDX-License-Identifier: Apache-2.0
// A graph with conditional nodes: a word of an operand selects one of two bodies; after it a loop runs as often as a
// counter says, which the graph sets. The nodes of the bodies are changed one by one.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

constexpr std::uint64_t kMostRounds = 3;

// The present work of the nodes.
struct Nodes {
  CUgraphConditionalHandle choice = 0, loop = 0;
  CUdeviceptr counter = 0;
  CUgraphNode set = nullptr, decide = nullptr, chosen = nullptr, otherwise = nullptr, round = nullptr;
  std::vector<Slice> slices{};  // out, a, b
  std::uint64_t salt = 0;
  unsigned rounds = 1;

  Nodes() { CHECK_CUDA(cuMemAlloc(&counter, 64)); }
  ~Nodes() { CHECK_CUDA(cuMemFree(counter)); }
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  CUDA_MEMSET_NODE_PARAMS setting() const {
    CUDA_MEMSET_NODE_PARAMS set_node{};
    set_node.dst = counter;
    set_node.elementSize = 4;
    set_node.value = rounds;
    set_node.width = set_node.height = 1;
    return set_node;
  }
  Task deciding() const {
    Task made{.kernel = "model_decide"};
    made.add(choice);
    made.add(slices[1].address());
    return made;
  }
  Task counting() const {
    Task made{.kernel = "model_count_down"};
    made.add(loop);
    made.add(counter);
    return made;
  }
  Task combining(std::uint64_t by) const {
    Task made{.kernel = "model_combine"};
    for (const std::uint64_t word : Operands{slices[0], slices[1], slices[2]}.table()) made.add(word);
    made.add(salt + by);
    return made;
  }
};

// Calls with the node's parameters, which are valid during the call.
template <typename Use>
void with_kernel(const World& world, Task task, Use use) {
  std::vector<void*> parameters = task.parameters();
  CUDA_KERNEL_NODE_PARAMS node{};
  node.func = function_of(world, task);
  node.gridDimX = node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
  node.blockDimX = 64;
  node.kernelParams = parameters.data();
  use(&node);
}

CUgraphNode add(const World& world, CUgraph graph, CUgraphNode after, Task task) {
  CUgraphNode added = nullptr;
  with_kernel(world, std::move(task), [&](const CUDA_KERNEL_NODE_PARAMS* node) {
    CHECK_CUDA(cuGraphAddKernelNode(&added, graph, &after, after != nullptr ? 1 : 0, node));
  });
  return added;
}

void set(const World& world, CUgraphExec exec, CUgraphNode node, Task task) {
  with_kernel(world, std::move(task), [&](const CUDA_KERNEL_NODE_PARAMS* params) {
    CHECK_CUDA(cuGraphExecKernelNodeSetParams(exec, node, params));
  });
}

CUgraphConditionalHandle handle_of(const World& world, CUgraph graph, unsigned value) {
  CUgraphConditionalHandle handle = 0;
  CHECK_CUDA(cuGraphConditionalHandleCreate(&handle, graph, world.device.context, value, CU_GRAPH_COND_ASSIGN_DEFAULT));
  return handle;
}

struct Conditional {
  CUgraphNode node = nullptr;
  CUgraph* bodies = nullptr;
};
Conditional add(const World& world, CUgraph graph, std::span<const CUgraphNode> after, CUgraphConditionalHandle handle,
                CUgraphConditionalNodeType type, unsigned size) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = handle;
  params.conditional.type = type;
  params.conditional.size = size;
  params.conditional.ctx = world.device.context;
  CUgraphNode node = nullptr;
  CHECK_CUDA(cuGraphAddNode(&node, graph, after.data(), nullptr, after.size(), &params));
  return {node, params.conditional.phGraph_out};
}

void choose(World& world, Nodes& nodes, const std::vector<Slice>& slices) {
  nodes.slices = slices;
  nodes.salt = world.random.next();
  nodes.rounds = static_cast<unsigned>(1 + world.random.below(kMostRounds));
}

void settle(Graph& graph, const Nodes& nodes) {
  graph.reads = {nodes.slices[1].buffer, nodes.slices[2].buffer};
  graph.writes = {nodes.slices[0].buffer};
  graph.effect = [slices = nodes.slices, salt = nodes.salt, rounds = nodes.rounds] {
    const Words out = slices[0].words(), a = slices[1].words(), b = slices[2].words();
    combine(out, a, b, (a.at[0] & 1) != 0 ? salt : salt + 1);
    for (unsigned i = 0; i < rounds; ++i) combine(out, a, b, salt + 2);
  };
}

void build(World& world, Graph& graph, Nodes& nodes) {
  CHECK_CUDA(cuGraphCreate(&graph.graph, 0));
  nodes.choice = handle_of(world, graph.graph, 0);
  nodes.loop = handle_of(world, graph.graph, 1);
  const CUDA_MEMSET_NODE_PARAMS setting = nodes.setting();
  CHECK_CUDA(cuGraphAddMemsetNode(&nodes.set, graph.graph, nullptr, 0, &setting, world.device.context));
  nodes.decide = add(world, graph.graph, nullptr, nodes.deciding());
  const auto choice = add(world, graph.graph, {&nodes.decide, 1}, nodes.choice, CU_GRAPH_COND_TYPE_IF, 2);
  nodes.chosen = add(world, choice.bodies[0], nullptr, nodes.combining(0));
  nodes.otherwise = add(world, choice.bodies[1], nullptr, nodes.combining(1));
  const CUgraphNode before[] = {choice.node, nodes.set};
  const auto loop = add(world, graph.graph, before, nodes.loop, CU_GRAPH_COND_TYPE_WHILE, 1);
  nodes.round = add(world, loop.bodies[0], nullptr, nodes.combining(2));
  add(world, loop.bodies[0], nodes.round, nodes.counting());
  CHECK_CUDA(cuGraphInstantiate(&graph.exec, graph.graph, 0));
}

void change(World& world, Graph& graph, Nodes& nodes) {
  const std::vector<Slice> slices = world.pick_held(3);
  if (slices.empty()) return;
  choose(world, nodes, slices);
  const CUDA_MEMSET_NODE_PARAMS setting = nodes.setting();
  CHECK_CUDA(cuGraphExecMemsetNodeSetParams(graph.exec, nodes.set, &setting, world.device.context));
  set(world, graph.exec, nodes.decide, nodes.deciding());
  set(world, graph.exec, nodes.chosen, nodes.combining(0));
  set(world, graph.exec, nodes.otherwise, nodes.combining(1));
  set(world, graph.exec, nodes.round, nodes.combining(2));
  settle(graph, nodes);
}

void make(World& world) {
  if (world.graphs().size() >= 2 || world.buffers().empty()) return;
  const std::vector<Slice> slices = world.pick_held(3);
  if (slices.empty()) return;
  auto graph = std::make_unique<Graph>();
  auto nodes = std::make_shared<Nodes>();
  choose(world, *nodes, slices);
  build(world, *graph, *nodes);
  settle(*graph, *nodes);
  graph->change = [&world, at = nodes.get()](Graph& changed) { change(world, changed, *at); };
  graph->own = nodes;
  world.graphs().push_back(std::move(graph));
}

const Registered<Step> step({{"graph_with_conditions", 2}, make});
}  // namespace
