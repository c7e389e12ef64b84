// SPDX-License-Identifier: Apache-2.0
// Conditional nodes: one of two bodies; a loop over layers, each of which works on the buffer that a table in device
// memory names; one of several bodies, captured from a stream. Launched again when everything has been evicted, and
// when a node of a body has been given another buffer.
#include "tests/preload/programs/small.h"

#include <dlfcn.h>
#include <vector_types.h>

#include <cstdint>
#include <cstring>

#include "simulator/control.h"

namespace {

const char kDeciding[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry decide(.param .u64 handle, .param .u64 word)
{
  ret;
}
.visible .entry next_layer(.param .u64 handle, .param .u64 state, .param .u64 layers)
{
  ret;
}
)";

constexpr int kLayers = 2;  // as many as fit in addition to what the graphs hold

// The position of the loop.
struct Progress {
  std::uint32_t layer, layers;
};

template <class T>
T parameter(void** arguments, int i) {
  T value;
  std::memcpy(&value, arguments[i], sizeof value);
  return value;
}

auto* simulated_control() {
  return reinterpret_cast<const SimulatedDeviceControl* (*)()>(dlsym(RTLD_DEFAULT, "simulated_device_control"));
}

void set_condition(std::uint64_t handle, std::uint32_t value) {
  const auto control = simulated_control();
  if (control != nullptr && control()->set_condition(handle, value) != 0) return;
  fprintf(stderr, "program: no condition\n");
  std::_Exit(4);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void simulated_decide(void** arguments, dim3, dim3) {
  set_condition(parameter<std::uint64_t>(arguments, 0), *parameter<const std::uint32_t*>(arguments, 1));
}

__attribute__((visibility("default"))) void simulated_next_layer(void** arguments, dim3, dim3) {
  auto* const progress = parameter<Progress*>(arguments, 1);
  auto* const layer = parameter<std::uint32_t* const*>(arguments, 2)[progress->layer];
  for (std::size_t i = 0; i < BYTES / sizeof *layer; ++i) layer[i] = layer[i] * 31 + progress->layer;
  ++progress->layer;
  set_condition(parameter<std::uint64_t>(arguments, 0), progress->layer < progress->layers ? 1 : 0);
}

}  // extern "C"

namespace {

CUstream stream;
CUmodule deciding;
CUdeviceptr words;

CUgraphNode add_kernel(CUgraph graph, CUgraphNode after, CUfunction function, void** parameters) {
  CUgraphNode node = nullptr;
  CUDA_KERNEL_NODE_PARAMS work{};
  work.func = function;
  work.gridDimX = 64;
  work.gridDimY = work.gridDimZ = work.blockDimY = work.blockDimZ = 1;
  work.blockDimX = 128;
  work.kernelParams = parameters;
  CHECK(cuGraphAddKernelNode(&node, graph, &after, after != nullptr ? 1 : 0, &work));
  return node;
}

CUgraphNode add_mix(CUgraph graph, CUdeviceptr out, CUdeviceptr in) {
  void* parameters[] = {&out, &in};
  return add_kernel(graph, nullptr, mix, parameters);
}

CUgraphNode add_decision(CUgraph graph, CUgraphConditionalHandle handle) {
  CUfunction decide = nullptr;
  CHECK(cuModuleGetFunction(&decide, deciding, "decide"));
  void* parameters[] = {&handle, &words};
  return add_kernel(graph, nullptr, decide, parameters);
}

CUgraphConditionalHandle handle_of(CUgraph graph, unsigned value) {
  CUgraphConditionalHandle handle = 0;
  CHECK(cuGraphConditionalHandleCreate(&handle, graph, context, value, CU_GRAPH_COND_ASSIGN_DEFAULT));
  return handle;
}

// Its bodies: an array that belongs to the driver.
CUgraph* add_conditional(CUgraph graph, CUgraphNode after, CUgraphConditionalHandle handle,
                         CUgraphConditionalNodeType type, unsigned size) {
  CUgraphNode node = nullptr;
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = handle;
  params.conditional.type = type;
  params.conditional.size = size;
  params.conditional.ctx = context;
  CHECK(cuGraphAddNode(&node, graph, &after, nullptr, after != nullptr ? 1 : 0, &params));
  return params.conditional.phGraph_out;
}

void say(std::uint32_t first, std::uint32_t second) {
  const std::uint32_t said[] = {first, second};
  CHECK(cuMemcpyHtoD(words, said, sizeof said));
  CHECK(cuCtxSynchronize());
}

// With other work in between, so that everything that the graph does not hold is evicted.
void launch(CUgraphExec exec) {
  CHECK(cuGraphLaunch(exec, stream));
  mix_all(stream);
  CHECK(cuStreamSynchronize(stream));
}

void one_of_two() {
  CUgraph graph = nullptr;
  CUgraphExec ready = nullptr;
  CHECK(cuGraphCreate(&graph, 0));
  const CUgraphConditionalHandle handle = handle_of(graph, 0);
  CUgraph* const bodies = add_conditional(graph, add_decision(graph, handle), handle, CU_GRAPH_COND_TYPE_IF, 2);
  CUgraphNode first = add_mix(bodies[0], buffers[0], buffers[1]);
  add_mix(bodies[1], buffers[1], buffers[0]);
  CHECK(cuGraphInstantiate(&ready, graph, 0));
  for (std::uint32_t round = 0; round < 3; ++round) {
    say(round % 2, 0);
    launch(ready);
    show("first", buffers[0], BYTES);
    show("second", buffers[1], BYTES);
  }
  CUDA_KERNEL_NODE_PARAMS work{};
  CHECK(cuGraphKernelNodeGetParams(first, &work));
  void* parameters[] = {&buffers[1], &buffers[0]};
  work.kernelParams = parameters;
  CHECK(cuGraphExecKernelNodeSetParams(ready, first, &work));
  say(1, 0);
  launch(ready);
  show("changed", buffers[1], BYTES);
  CHECK(cuGraphExecDestroy(ready));
  CHECK(cuGraphDestroy(graph));
}

void layer_by_layer() {
  CUgraph graph = nullptr;
  CUgraphExec ready = nullptr;
  CUfunction next_layer = nullptr;
  CUdeviceptr table = 0;
  CHECK(cuModuleGetFunction(&next_layer, deciding, "next_layer"));
  CHECK(cuMemAlloc(&table, kLayers * sizeof table));
  CHECK(cuGraphCreate(&graph, 0));
  // On a GPU the kernels do nothing (setting a condition needs NVIDIA's device runtime), and the loop would not end.
  CUgraphConditionalHandle handle = handle_of(graph, simulated_control() != nullptr ? 1 : 0);
  CUgraph* const body = add_conditional(graph, nullptr, handle, CU_GRAPH_COND_TYPE_WHILE, 1);
  void* parameters[] = {&handle, &words, &table};
  add_kernel(body[0], nullptr, next_layer, parameters);
  CHECK(cuGraphInstantiate(&ready, graph, 0));
  for (int round = 0; round < 3; ++round) {
    CHECK(cuMemcpyHtoD(table, &buffers[3 + round], kLayers * sizeof table));
    say(0, round == 0 ? 1 : kLayers);
    launch(ready);
  }
  show("layers", buffers[4], BYTES);
  CHECK(cuGraphExecDestroy(ready));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuMemFree(table));
}

void one_of_several() {
  CUgraph graph = nullptr;
  CUgraphExec ready = nullptr;
  CHECK(cuGraphCreate(&graph, 0));
  const CUgraphConditionalHandle handle = handle_of(graph, 0);
  CUgraph* const bodies = add_conditional(graph, add_decision(graph, handle), handle, CU_GRAPH_COND_TYPE_SWITCH, 2);
  for (int i = 0; i < 2; ++i) {
    CHECK(cuStreamBeginCaptureToGraph(stream, bodies[i], nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
    mix_on(stream, buffers[i], buffers[1 - i]);
    CHECK(cuMemsetD32Async(buffers[1 - i], 5, 64, stream));
    CHECK(cuStreamEndCapture(stream, nullptr));
  }
  CHECK(cuGraphInstantiate(&ready, graph, 0));
  for (std::uint32_t choice = 0; choice < 3; ++choice) {
    say(choice, 0);
    launch(ready);
    show("chosen", buffers[choice % 2], BYTES);
  }
  CHECK(cuGraphExecDestroy(ready));
  CHECK(cuGraphDestroy(graph));
}

}  // namespace

int main() {
  begin();
  CHECK(cuModuleLoadData(&deciding, kDeciding));
  CHECK(cuMemAlloc(&words, 64));
  make_buffers();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  one_of_two();
  layer_by_layer();
  one_of_several();
  CHECK(cuStreamDestroy(stream));
  CHECK(cuMemFree(words));
  return finish();
}
