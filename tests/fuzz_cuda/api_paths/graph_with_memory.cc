// SPDX-License-Identifier: Apache-2.0
// A graph that allocates memory of its own while it is captured: a kernel's operand is copied there first. The second
// allocation begins after the end of the first.
#include <algorithm>

#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

constexpr std::uint64_t kMostWords = 128 << 10;

// out is combined with b and with a copy of the beginning of a.
void combine_with_a_copy(const World& world, CUstream stream, const std::vector<Slice>& slices, std::uint64_t words,
                         std::uint64_t salt) {
  const Slice &out = slices[0], &a = slices[1], &b = slices[2];
  CUdeviceptr scratch = 0;
  CHECK_CUDA(cuMemAllocAsync(&scratch, words * 8, stream));
  CHECK_CUDA(cuMemcpyDtoDAsync(scratch, a.address(), words * 8, stream));
  Task task{.kernel = "model_combine"};
  const std::uint64_t words_of_task[] = {out.address(), out.count, scratch, words, b.address(), b.count, salt};
  for (const std::uint64_t word : words_of_task) task.add(word);
  std::vector<void*> parameters = task.parameters();
  CHECK_CUDA(cuLaunchKernel(function_of(world, task), 1, 1, 1, 64, 1, 1, 0, stream, parameters.data(), nullptr));
  CHECK_CUDA(cuMemFreeAsync(scratch, stream));
}

void record(World& world, Graph& graph, const std::vector<Slice>& slices) {
  const std::uint64_t salt = world.random.next();
  const std::uint64_t words = 1 + world.random.below(std::min(slices[1].count, kMostWords));
  const CUstream stream = world.stream(world.own_stream());
  CHECK_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  combine_with_a_copy(world, stream, slices, words, salt);
  combine_with_a_copy(world, stream, slices, words, salt + 1);
  CHECK_CUDA(cuStreamEndCapture(stream, &graph.graph));
  CHECK_CUDA(cuGraphInstantiate(&graph.exec, graph.graph, 0));
  graph.reads = {slices[1].buffer, slices[2].buffer};
  graph.writes = {slices[0].buffer};
  graph.effect = [slices, words, salt] {
    const Words out = slices[0].words(), a{slices[1].words().at, words}, b = slices[2].words();
    combine(out, a, b, salt);
    combine(out, a, b, salt + 1);
  };
}

// It can not be updated from another graph, because it has memory of its own.
void record_again(World& world, Graph& graph) {
  const std::vector<Slice> slices = world.pick_held(3);
  if (slices.empty()) return;
  CHECK_CUDA(cuGraphExecDestroy(graph.exec));
  CHECK_CUDA(cuGraphDestroy(graph.graph));
  if (world.random.one_in(2)) CHECK_CUDA(cuDeviceGraphMemTrim(0));
  record(world, graph, slices);
}

void make(World& world) {
  if (world.graphs().size() >= 2 || world.buffers().empty()) return;
  const std::vector<Slice> slices = world.pick_held(3);
  if (slices.empty()) return;
  auto graph = std::make_unique<Graph>();
  record(world, *graph, slices);
  graph->change = [&world](Graph& changed) { record_again(world, changed); };
  world.graphs().push_back(std::move(graph));
}

const Registered<Step> step({{"graph_with_memory", 2}, make});
}  // namespace
