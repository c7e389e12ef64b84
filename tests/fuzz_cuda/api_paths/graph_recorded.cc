// SPDX-License-Identifier: Apache-2.0
// A graph captured from two streams, updated as a whole.
#include <algorithm>

#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

void launch(const World& world, CUstream stream, const Operands& operands) {
  Task task{.kernel = "model_combine"};
  for (const std::uint64_t word : operands.table()) task.add(word);
  task.add(operands.salt);
  std::vector<void*> parameters = task.parameters();
  CHECK_CUDA(cuLaunchKernel(function_of(world, task), 1, 1, 1, 64, 1, 1, 0, stream, parameters.data(), nullptr));
}

// out and a are combined while b is copied over the beginning of c; then both streams join.
CUgraph record(World& world, const std::vector<Slice>& slices, std::uint64_t salt, std::size_t words) {
  const Slice &out = slices[0], &a = slices[1], &b = slices[2], &c = slices[3];
  const unsigned first = world.own_stream();
  const CUstream one = world.stream(first), two = world.stream((first + 1) % kLegacy);
  CUgraph graph = nullptr;
  CUevent forked = nullptr, joined = nullptr;
  CHECK_CUDA(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
  CHECK_CUDA(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
  CHECK_CUDA(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK_CUDA(cuEventRecord(forked, one));
  CHECK_CUDA(cuStreamWaitEvent(two, forked, 0));
  launch(world, one, {out, out, a, salt});
  CHECK_CUDA(cuMemcpyDtoDAsync(c.address(), b.address(), words * 8, two));
  CHECK_CUDA(cuMemsetD32Async(b.address(), 7, 2, two));
  CHECK_CUDA(cuEventRecord(joined, two));
  CHECK_CUDA(cuStreamWaitEvent(one, joined, 0));
  launch(world, one, {c, out, b, salt});
  CHECK_CUDA(cuStreamEndCapture(one, &graph));
  CHECK_CUDA(cuEventDestroy(forked));
  CHECK_CUDA(cuEventDestroy(joined));
  return graph;
}

void record_again(World& world, Graph& graph, const std::vector<Slice>& slices) {
  const std::uint64_t salt = world.random.next();
  const std::uint64_t words = 1 + world.random.below(std::min(slices[2].count, slices[3].count));
  const CUgraph recorded = record(world, slices, salt, words);
  if (graph.exec == nullptr) {
    CHECK_CUDA(cuGraphInstantiate(&graph.exec, recorded, 0));
  } else {
    CUgraphExecUpdateResultInfo why{};
    CHECK_CUDA(cuGraphExecUpdate(graph.exec, recorded, &why));
  }
  CHECK_CUDA(cuGraphDestroy(recorded));
  graph.reads = {slices[1].buffer};
  graph.writes = {slices[0].buffer, slices[2].buffer, slices[3].buffer};
  graph.effect = [slices, salt, words] {
    const Words out = slices[0].words(), a = slices[1].words(), b = slices[2].words(), c = slices[3].words();
    combine(out, out, a, salt);
    std::copy_n(b.at, words, c.at);
    b.at[0] = std::uint64_t{7} << 32 | 7;
    combine(c, out, b, salt);
  };
}

void make(World& world) {
  if (world.graphs().size() >= 2 || world.buffers().empty()) return;
  const std::vector<Slice> slices = world.pick_held(4);
  if (slices.empty()) return;
  auto graph = std::make_unique<Graph>();
  record_again(world, *graph, slices);
  graph->change = [&world](Graph& changed) {
    const std::vector<Slice> others = world.pick_held(4);
    if (!others.empty()) record_again(world, changed, others);
  };
  world.graphs().push_back(std::move(graph));
}

const Registered<Step> step({{"graph_recorded", 2}, make});
}  // namespace
