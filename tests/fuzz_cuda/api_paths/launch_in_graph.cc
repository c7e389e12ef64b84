// SPDX-License-Identifier: Apache-2.0
// Launches through a graph that is used once: captured from a stream, or made of a node.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

void hold_tables(World& world, const Task& task) { world.hold(task.tables); }

void launch_and_destroy(World& world, unsigned stream, CUgraph graph) {
  CUgraphExec exec = nullptr;
  CHECK_CUDA(cuGraphInstantiate(&exec, graph, 0));
  if (world.random.one_in(2)) CHECK_CUDA(cuGraphUpload(exec, world.stream(stream)));
  CHECK_CUDA(cuGraphLaunch(exec, world.stream(stream)));
  if (world.random.one_in(2)) CHECK_CUDA(cuStreamSynchronize(world.stream(stream)));
  CHECK_CUDA(cuGraphExecDestroy(exec));
  CHECK_CUDA(cuGraphDestroy(graph));
}

void recorded(World& world, unsigned stream, Task& task) {
  hold_tables(world, task);
  std::vector<void*> parameters = task.parameters();
  CUgraph graph = nullptr;
  CHECK_CUDA(cuStreamBeginCapture(world.stream(stream), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK_CUDA(
      cuLaunchKernel(function_of(world, task), 1, 1, 1, 64, 1, 1, 0, world.stream(stream), parameters.data(), nullptr));
  CHECK_CUDA(cuStreamEndCapture(world.stream(stream), &graph));
  launch_and_destroy(world, stream, graph);
}

void of_a_node(World& world, unsigned stream, Task& task) {
  hold_tables(world, task);
  std::vector<void*> parameters = task.parameters();
  CUDA_KERNEL_NODE_PARAMS node{};
  node.func = function_of(world, task);
  node.gridDimX = node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
  node.blockDimX = 64;
  node.kernelParams = parameters.data();
  CUgraph graph = nullptr;
  CUgraphNode added = nullptr;
  CHECK_CUDA(cuGraphCreate(&graph, 0));
  CHECK_CUDA(cuGraphAddKernelNode(&added, graph, nullptr, 0, &node));
  launch_and_destroy(world, stream, graph);
}

const Registered<Launching> one({{"launch_recorded", 2}, Needs::kOwnStream, recorded, true});
const Registered<Launching> two({{"launch_node", 2}, Needs::kAnyStream, of_a_node, true});
}  // namespace
