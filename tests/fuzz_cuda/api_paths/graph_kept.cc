// SPDX-License-Identifier: Apache-2.0
// Graphs that are kept: launched, changed, launched again, and destroyed. The API paths that create them are in
// graph_*.cc.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

void launch(World& world) {
  if (world.graphs().empty()) return;
  Graph& graph = *world.graphs()[world.random.below(world.graphs().size())];
  if (world.random.one_in(3)) {
    CHECK_CUDA(cuStreamSynchronize(world.stream(graph.used.stream)));
    graph.change(graph);
  }
  world.launch(graph, world.any_stream());
}

void drop(World& world) {
  if (!world.graphs().empty()) world.drop(world.random.below(world.graphs().size()));
}

const Registered<Step> one({{"graph_launch", 10}, launch});
const Registered<Step> two({{"graph_drop", 2}, drop});
}  // namespace
