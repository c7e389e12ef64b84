// SPDX-License-Identifier: Apache-2.0
// A graph made of nodes: a set, a kernel, a copy, a host function, a child graph with a kernel. The nodes of the
// executable graph are changed one by one.
#include <algorithm>
#include <atomic>

#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

std::atomic<std::uint64_t> calls = 0;
void CUDA_CB call(void*) { calls.fetch_add(1); }

// The present work of the nodes.
struct Nodes {
  CUgraphNode set = nullptr, kernel = nullptr, copy = nullptr, host = nullptr, child = nullptr;
  std::vector<Slice> slices{};  // out, a, b, c
  std::uint64_t salt = 0, words = 0;
  unsigned value = 0;

  CUDA_MEMSET_NODE_PARAMS setting() const {
    CUDA_MEMSET_NODE_PARAMS set_node{};
    set_node.dst = slices[1].address();
    set_node.elementSize = 4;
    set_node.value = value;
    set_node.width = 2;
    set_node.height = 1;
    return set_node;
  }
  CUDA_MEMCPY3D copying() const {
    CUDA_MEMCPY3D shape{};
    shape.srcMemoryType = shape.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    shape.srcDevice = slices[2].address();
    shape.dstDevice = slices[3].address();
    shape.WidthInBytes = words * 8;
    shape.Height = shape.Depth = 1;
    return shape;
  }
  Task task() const {
    Task made{.kernel = "model_combine"};
    for (const std::uint64_t word : Operands{slices[0], slices[1], slices[2]}.table()) made.add(word);
    made.add(salt);
    return made;
  }
};

CUDA_KERNEL_NODE_PARAMS launching(const World& world, const Task& task, std::vector<void*>& parameters) {
  CUDA_KERNEL_NODE_PARAMS node{};
  node.func = function_of(world, task);
  node.gridDimX = node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
  node.blockDimX = 64;
  node.kernelParams = parameters.data();
  return node;
}

void choose(World& world, Nodes& nodes, const std::vector<Slice>& slices) {
  nodes.slices = slices;
  nodes.salt = world.random.next();
  nodes.value = static_cast<unsigned>(world.random.next());
  nodes.words = 1 + world.random.below(std::min(slices[2].count, slices[3].count));
}

void settle(Graph& graph, const Nodes& nodes) {
  graph.reads = {nodes.slices[2].buffer};
  graph.writes = {nodes.slices[0].buffer, nodes.slices[1].buffer, nodes.slices[3].buffer};
  graph.effect = [now = nodes] {
    const Words out = now.slices[0].words(), a = now.slices[1].words(), b = now.slices[2].words();
    a.at[0] = std::uint64_t{now.value} << 32 | now.value;
    combine(out, a, b, now.salt);
    std::copy_n(b.at, now.words, now.slices[3].words().at);
    combine(out, a, b, now.salt);
  };
}

CUgraph child_of(const CUDA_KERNEL_NODE_PARAMS& kernel) {
  CUgraph child = nullptr;
  CUgraphNode node = nullptr;
  CHECK_CUDA(cuGraphCreate(&child, 0));
  CHECK_CUDA(cuGraphAddKernelNode(&node, child, nullptr, 0, &kernel));
  return child;
}

void build(World& world, Graph& graph, Nodes& nodes) {
  Task task = nodes.task();
  std::vector<void*> parameters = task.parameters();
  const CUDA_KERNEL_NODE_PARAMS kernel = launching(world, task, parameters);
  const CUDA_MEMSET_NODE_PARAMS set = nodes.setting();
  const CUDA_MEMCPY3D copy = nodes.copying();
  const CUDA_HOST_NODE_PARAMS host{.fn = call, .userData = nullptr};
  const CUcontext context = world.device.context;
  const CUgraph child = child_of(kernel);
  CHECK_CUDA(cuGraphCreate(&graph.graph, 0));
  CHECK_CUDA(cuGraphAddMemsetNode(&nodes.set, graph.graph, nullptr, 0, &set, context));
  CHECK_CUDA(cuGraphAddKernelNode(&nodes.kernel, graph.graph, &nodes.set, 1, &kernel));
  CHECK_CUDA(cuGraphAddMemcpyNode(&nodes.copy, graph.graph, nullptr, 0, &copy, context));
  CHECK_CUDA(cuGraphAddHostNode(&nodes.host, graph.graph, &nodes.copy, 1, &host));
  const CUgraphNode before[] = {nodes.kernel, nodes.host};
  CHECK_CUDA(cuGraphAddChildGraphNode(&nodes.child, graph.graph, before, 2, child));
  CHECK_CUDA(cuGraphDestroy(child));
  CHECK_CUDA(cuGraphInstantiate(&graph.exec, graph.graph, 0));
}

void change(World& world, Graph& graph, Nodes& nodes) {
  const std::vector<Slice> slices = world.pick_held(4);
  if (slices.empty()) return;
  choose(world, nodes, slices);
  Task task = nodes.task();
  std::vector<void*> parameters = task.parameters();
  const CUDA_KERNEL_NODE_PARAMS kernel = launching(world, task, parameters);
  const CUDA_MEMSET_NODE_PARAMS set = nodes.setting();
  const CUDA_MEMCPY3D copy = nodes.copying();
  const CUcontext context = world.device.context;
  const CUgraph child = child_of(kernel);
  CHECK_CUDA(cuGraphExecMemsetNodeSetParams(graph.exec, nodes.set, &set, context));
  CHECK_CUDA(cuGraphExecKernelNodeSetParams(graph.exec, nodes.kernel, &kernel));
  CHECK_CUDA(cuGraphExecMemcpyNodeSetParams(graph.exec, nodes.copy, &copy, context));
  CHECK_CUDA(cuGraphExecChildGraphNodeSetParams(graph.exec, nodes.child, child));
  CHECK_CUDA(cuGraphDestroy(child));
  settle(graph, nodes);
}

void make(World& world) {
  if (world.graphs().size() >= 2 || world.buffers().empty()) return;
  const std::vector<Slice> slices = world.pick_held(4);
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

const Registered<Step> step({{"graph_of_nodes", 2}, make});
}  // namespace
