// SPDX-License-Identifier: Apache-2.0
// A graph that names all buffers that graphs may be given, together more than the budget: two branches of kernels, copies
// and child graphs, which meet in an empty node. It is launched at once, and changed in between: node by node, nodes
// disabled and enabled, or as a whole. The library has to launch it in parts.
#include <algorithm>

#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

constexpr std::size_t kMost = 64, kLeast = 8;

struct Item {
  CUgraphNode node = nullptr;
  Slice out, a, b;
  std::uint64_t salt = 0;
  bool is_child = false, is_enabled = true;
  // A child graph has a second kernel on what the first one wrote; the first may be in a graph of its own within.
  bool is_nested = false;
  Slice c;
  std::uint64_t second_salt = 0;
};

struct Many {
  std::vector<Slice> slices[2];  // of each branch
  std::vector<Item> items;       // of the first branch, then of the second
  bool is_updated = false;       // as a whole, after which the library does not know which node another change means
};

std::vector<Slice> all_slices(World& world) {
  std::vector<Slice> slices;
  for (const auto& buffer : world.buffers()) {
    if (!buffer->defined || buffer->memory == nullptr || !buffer->memory->may_be_recorded) continue;
    slices.push_back({buffer.get(), 0, buffer->model.size()});
    if (slices.size() == kMost) break;
  }
  return slices;
}

struct Launching {
  Task task{.kernel = "model_combine"};
  std::vector<void*> parameters;
  CUDA_KERNEL_NODE_PARAMS node{};

  Launching(const World& world, const Item& item) {
    for (const std::uint64_t word : Operands{item.out, item.a, item.b}.table()) task.add(word);
    task.add(item.salt);
    parameters = task.parameters();
    node.func = function_of(world, task);
    node.gridDimX = node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
    node.blockDimX = 64;
    node.kernelParams = parameters.data();
  }
};

Item second_of(const Item& item) {
  Item second = item;
  second.a = item.out;
  second.b = item.c;
  second.salt = item.second_salt;
  return second;
}

CUgraph child_of(const World& world, const Item& item) {
  CUgraph child = nullptr, within = nullptr;
  CUgraphNode first = nullptr, second = nullptr, inner = nullptr;
  const Launching one(world, item), other(world, second_of(item));
  CHECK_CUDA(cuGraphCreate(&child, 0));
  if (item.is_nested) {
    CHECK_CUDA(cuGraphCreate(&within, 0));
    CHECK_CUDA(cuGraphAddKernelNode(&inner, within, nullptr, 0, &one.node));
    CHECK_CUDA(cuGraphAddChildGraphNode(&first, child, nullptr, 0, within));
    CHECK_CUDA(cuGraphDestroy(within));
  } else {
    CHECK_CUDA(cuGraphAddKernelNode(&first, child, nullptr, 0, &one.node));
  }
  CHECK_CUDA(cuGraphAddKernelNode(&second, child, &first, 1, &other.node));
  return child;
}

void choose(World& world, const std::vector<Slice>& slices, std::size_t at, Item* item) {
  item->out = slices[at];
  item->a = slices[world.random.below(slices.size())];
  item->b = slices[world.random.below(slices.size())];
  item->c = slices[world.random.below(slices.size())];
  item->salt = world.random.next();
  item->second_salt = world.random.next();
}

// The nodes of the two branches in turns, as two streams would have been captured.
CUgraph build(World& world, Many& many) {
  CUgraph graph = nullptr;
  CHECK_CUDA(cuGraphCreate(&graph, 0));
  std::vector<CUgraphNode> ends(2, nullptr);
  std::size_t first = 0;
  for (unsigned branch = 0; branch < 2; ++branch) {
    for (std::size_t i = 0; i < many.slices[branch].size(); ++i) {
      Item& item = many.items[first + i];
      const Launching launching(world, item);
      const CUgraphNode* const before = ends[branch] == nullptr ? nullptr : &ends[branch];
      const std::size_t count = before == nullptr ? 0 : 1;
      if (item.is_child) {
        const CUgraph child = child_of(world, item);
        CHECK_CUDA(cuGraphAddChildGraphNode(&item.node, graph, before, count, child));
        CHECK_CUDA(cuGraphDestroy(child));
      } else {
        CHECK_CUDA(cuGraphAddKernelNode(&item.node, graph, before, count, &launching.node));
      }
      ends[branch] = item.node;
    }
    first += many.slices[branch].size();
  }
  CUgraphNode joined = nullptr;
  CHECK_CUDA(cuGraphAddEmptyNode(&joined, graph, ends.data(), 2));
  return graph;
}

void settle(Graph& graph, const Many& many) {
  graph.reads.clear();
  graph.writes.clear();
  for (const std::vector<Slice>& slices : many.slices) {
    for (const Slice& slice : slices) graph.writes.push_back(slice.buffer);
  }
  graph.effect = [items = many.items] {
    for (const Item& item : items) {
      if (item.is_enabled) combine(item.out.words(), item.a.words(), item.b.words(), item.salt);
      if (item.is_child) combine(item.out.words(), item.out.words(), item.c.words(), item.second_salt);
    }
  };
}

void change_nodes(World& world, Graph& graph, Many& many) {
  for (int times = 0; times < 4; ++times) {
    const std::size_t at = world.random.below(many.items.size());
    Item& item = many.items[at];
    const bool is_first = at < many.slices[0].size();
    if (!item.is_child && world.random.one_in(3)) {
      item.is_enabled = !item.is_enabled;
      CHECK_CUDA(cuGraphNodeSetEnabled(graph.exec, item.node, item.is_enabled ? 1 : 0));
      continue;
    }
    choose(world, many.slices[is_first ? 0 : 1], is_first ? at : at - many.slices[0].size(), &item);
    const Launching launching(world, item);
    if (item.is_child) {
      const CUgraph child = child_of(world, item);
      CHECK_CUDA(cuGraphExecChildGraphNodeSetParams(graph.exec, item.node, child));
      CHECK_CUDA(cuGraphDestroy(child));
    } else {
      CHECK_CUDA(cuGraphExecKernelNodeSetParams(graph.exec, item.node, &launching.node));
    }
  }
  settle(graph, many);
}

void change_all(World& world, Graph& graph, Many& many) {
  std::size_t first = 0;
  for (const std::vector<Slice>& slices : many.slices) {
    for (std::size_t i = 0; i < slices.size(); ++i) {
      Item& item = many.items[first + i];
      choose(world, slices, i, &item);
      // An update leaves nodes disabled, and the library would not launch the graph in parts any more.
      if (!item.is_enabled) CHECK_CUDA(cuGraphNodeSetEnabled(graph.exec, item.node, 1));
      item.is_enabled = true;
    }
    first += slices.size();
  }
  many.is_updated = true;
  const CUgraph newer = build(world, many);
  CUgraphExecUpdateResultInfo why{};
  CHECK_CUDA(cuGraphExecUpdate(graph.exec, newer, &why));
  CHECK_CUDA(cuGraphDestroy(newer));
  settle(graph, many);
}

void make(World& world) {
  if (world.graphs().size() >= 2) return;
  const std::vector<Slice> slices = all_slices(world);
  if (slices.size() < kLeast) return;
  auto graph = std::make_unique<Graph>();
  auto many = std::make_shared<Many>();
  const auto middle = slices.begin() + static_cast<std::ptrdiff_t>(slices.size() / 2);
  many->slices[0].assign(slices.begin(), middle);
  many->slices[1].assign(middle, slices.end());
  for (const std::vector<Slice>& branch : many->slices) {
    for (std::size_t i = 0; i < branch.size(); ++i) {
      Item& item = many->items.emplace_back();
      choose(world, branch, i, &item);
      item.is_child = world.random.one_in(8);
      item.is_nested = world.random.one_in(2);
    }
  }
  graph->graph = build(world, *many);
  CHECK_CUDA(cuGraphInstantiate(&graph->exec, graph->graph, 0));
  settle(*graph, *many);
  graph->change = [&world, at = many.get()](Graph& changed) {
    if (at->is_updated || world.random.one_in(3)) {
      change_all(world, changed, *at);
    } else {
      change_nodes(world, changed, *at);
    }
  };
  graph->own = many;
  world.graphs().push_back(std::move(graph));
  Graph& made = *world.graphs().back();
  for (int times = 0; times < 3; ++times) {
    world.launch(made, world.any_stream());
    if (world.random.one_in(2)) continue;
    CHECK_CUDA(cuStreamSynchronize(world.stream(made.used.stream)));
    made.change(made);
  }
  if (world.random.one_in(2)) world.drop(world.graphs().size() - 1);
}

const Registered<Step> step({{"graph_of_many", 2}, make});
}  // namespace
