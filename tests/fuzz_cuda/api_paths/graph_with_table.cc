// SPDX-License-Identifier: Apache-2.0
// A graph that uploads a table and runs a kernel that uses it. Between launches the host writes other addresses to the
// memory from which the graph copies.
#include <algorithm>

#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

struct Uploaded {
  World::Table table;
  Uploaded() {
    CHECK_CUDA(cuMemAlloc(&table.buffer.address, sizeof(std::uint64_t) * kTableWords));
    CHECK_CUDA(cuMemAllocHost(reinterpret_cast<void**>(&table.host), sizeof(std::uint64_t) * kTableWords));
  }
  ~Uploaded() {
    CHECK_CUDA(cuMemFree(table.buffer.address));
    CHECK_CUDA(cuMemFreeHost(table.host));
  }
  Uploaded(const Uploaded&) = delete;
  Uploaded& operator=(const Uploaded&) = delete;
};

void write(Graph& graph, Uploaded& uploaded, const std::vector<Slice>& slices, std::uint64_t salt) {
  const Operands operands{slices[0], slices[1], slices[2], salt};
  const auto words = operands.table();
  std::copy(words.begin(), words.end(), uploaded.table.host);
  graph.reads = {slices[1].buffer, slices[2].buffer};
  graph.writes = {slices[0].buffer};
  graph.effect = [operands] { combine(operands.out.words(), operands.a.words(), operands.b.words(), operands.salt); };
}

void build(World& world, Graph& graph, Uploaded& uploaded, std::uint64_t salt) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = uploaded.table.host;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = uploaded.table.buffer.address;
  copy.WidthInBytes = sizeof(std::uint64_t) * kTableWords;
  copy.Height = copy.Depth = 1;
  Task task{.kernel = "model_combine_by_table"};
  task.add(uploaded.table.buffer.address);
  task.add(salt);
  std::vector<void*> parameters = task.parameters();
  CUDA_KERNEL_NODE_PARAMS node{};
  node.func = function_of(world, task);
  node.gridDimX = node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
  node.blockDimX = 32;
  node.kernelParams = parameters.data();
  CUgraphNode copying = nullptr, launching = nullptr;
  CHECK_CUDA(cuGraphCreate(&graph.graph, 0));
  CHECK_CUDA(cuGraphAddMemcpyNode(&copying, graph.graph, nullptr, 0, &copy, world.device.context));
  CHECK_CUDA(cuGraphAddKernelNode(&launching, graph.graph, &copying, 1, &node));
  CHECK_CUDA(cuGraphInstantiate(&graph.exec, graph.graph, 0));
}

void make(World& world) {
  if (world.graphs().size() >= 2 || world.buffers().empty()) return;
  const std::vector<Slice> slices = world.pick_held(3);
  if (slices.empty()) return;
  auto graph = std::make_unique<Graph>();
  auto uploaded = std::make_shared<Uploaded>();
  const std::uint64_t salt = world.random.next();
  write(*graph, *uploaded, slices, salt);
  build(world, *graph, *uploaded, salt);
  graph->change = [&world, salt, at = uploaded.get()](Graph& changed) {
    const std::vector<Slice> others = world.pick_held(3);
    if (!others.empty()) write(changed, *at, others, salt);
  };
  graph->own = uploaded;
  world.graphs().push_back(std::move(graph));
}

const Registered<Step> step({{"graph_with_table", 2}, make});
}  // namespace
