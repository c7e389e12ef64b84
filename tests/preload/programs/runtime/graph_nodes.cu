// SPDX-License-Identifier: Apache-2.0
// Graphs built node by node through the runtime: nodes of each kind, whose parameters are read and changed. They name
// two of the buffers.
#include "tests/preload/programs/runtime/small.cuh"

#include <cstring>

constexpr std::size_t kPart = std::size_t{64} << 10;

__device__ std::uint32_t table[1024];

std::uint32_t on_host[kPart / 4];
int calls = 0;

void call_host(void* by) { calls += *static_cast<int*>(by); }

cudaKernelNodeParams kernel_of(void** arguments) {
  cudaKernelNodeParams params = {};
  params.func = reinterpret_cast<void*>(add);
  params.gridDim = dim3(16);
  params.blockDim = dim3(1024);
  params.kernelParams = arguments;
  return params;
}

struct Nodes {
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t set, kernel, row, into, from, host, child, empty, allocated, freed;
};

int by = 3;
std::uint32_t* second = nullptr;  // inside buffers[1]

void add_work(Nodes& n) {
  NEED(cudaGraphCreate(&n.graph, 0));
  cudaMemsetParams set = {buffers[0], 0, 0x01020304, 4, kPart / 4, 1};
  NEED(cudaGraphAddMemsetNode(&n.set, n.graph, nullptr, 0, &set));
  std::size_t words = kPart / 4;
  void* arguments[] = {&buffers[0], &buffers[1], &words};
  const cudaKernelNodeParams kernel = kernel_of(arguments);
  NEED(cudaGraphAddKernelNode(&n.kernel, n.graph, &n.set, 1, &kernel));
  NEED(cudaGraphAddMemcpyNode1D(&n.row, n.graph, &n.kernel, 1, second, buffers[0], kPart, cudaMemcpyDeviceToDevice));
  NEED(cudaGraphAddMemcpyNodeToSymbol(&n.into, n.graph, &n.row, 1, table, second, 1000, 24, cudaMemcpyDeviceToDevice));
  NEED(
      cudaGraphAddMemcpyNodeFromSymbol(&n.from, n.graph, &n.into, 1, on_host, table, 1000, 24, cudaMemcpyDeviceToHost));
  const cudaHostNodeParams host = {call_host, &by};
  NEED(cudaGraphAddHostNode(&n.host, n.graph, &n.from, 1, &host));
  NEED(cudaGraphAddEmptyNode(&n.empty, n.graph, &n.host, 1));
}

void add_memory(Nodes& n) {
  cudaMemAllocNodeParams allocation = {};
  allocation.poolProps.allocType = cudaMemAllocationTypePinned;
  allocation.poolProps.location = {cudaMemLocationTypeDevice, 0};
  allocation.bytesize = kPart;
  NEED(cudaGraphAddMemAllocNode(&n.allocated, n.graph, &n.empty, 1, &allocation));
  // There is also one function for nodes of any kind.
  cudaGraphNodeParams set = {};
  set.type = cudaGraphNodeTypeMemset;
  set.memset = {allocation.dptr, 0, 7, 1, kPart, 1};
  cudaGraphNode_t cleared, copied;
  NEED(cudaGraphAddNode(&cleared, n.graph, &n.allocated, nullptr, 1, &set));
  cudaMemcpy3DParms box = {};
  box.srcPtr = {allocation.dptr, 1024, 1024, 16};
  box.dstPtr = {buffers[1] + kWords / 2, 2048, 2048, 16};
  box.extent = {1000, 16, 4};
  box.kind = cudaMemcpyDeviceToDevice;
  NEED(cudaGraphAddMemcpyNode(&copied, n.graph, &cleared, 1, &box));
  NEED(cudaGraphAddMemFreeNode(&n.freed, n.graph, &copied, 1, allocation.dptr));
  cudaMemcpy3DParms found = {};
  NEED(cudaGraphMemcpyNodeGetParams(copied, &found));
  std::printf("box %d %zu %zu %zu %zu %d\n", found.dstPtr.ptr == buffers[1] + kWords / 2, found.extent.width,
              found.extent.height, found.extent.depth, found.srcPtr.pitch, static_cast<int>(found.kind));
  cudaMemAllocNodeParams told = {};
  NEED(cudaGraphMemAllocNodeGetParams(n.allocated, &told));
  void* freed = nullptr;
  NEED(cudaGraphMemFreeNodeGetParams(n.freed, &freed));
  std::printf("memory %zu %d %d\n", told.bytesize, told.dptr == allocation.dptr, freed == allocation.dptr);
}

void add_child(Nodes& n) {
  cudaGraph_t child;
  NEED(cudaGraphCreate(&child, 0));
  cudaGraphNode_t inner;
  NEED(cudaGraphAddMemcpyNode1D(&inner, child, nullptr, 0, buffers[1], second, kPart, cudaMemcpyDefault));
  NEED(cudaGraphAddChildGraphNode(&n.child, n.graph, &n.empty, 1, child));
  NEED(cudaGraphAddDependencies(n.graph, &n.freed, &n.child, nullptr, 1));
  NEED(cudaGraphDestroy(child));
  cudaEvent_t event, found = nullptr;
  NEED(cudaEventCreate(&event));
  cudaGraphNode_t record, wait;
  NEED(cudaGraphAddEventRecordNode(&record, n.graph, &n.child, 1, event));
  NEED(cudaGraphAddEventWaitNode(&wait, n.graph, &record, 1, event));
  NEED(cudaGraphEventRecordNodeGetEvent(record, &found));
  std::printf("event %d\n", found == event);
  NEED(cudaGraphEventWaitNodeGetEvent(wait, &found));
  std::printf("event %d\n", found == event);
}

void ask(const Nodes& n) {
  cudaKernelNodeParams kernel = {};
  NEED(cudaGraphKernelNodeGetParams(n.kernel, &kernel));
  std::printf("kernel %d %u %u %d\n", kernel.func == reinterpret_cast<void*>(add), kernel.gridDim.x, kernel.blockDim.x,
              *static_cast<std::uint32_t**>(kernel.kernelParams[1]) == buffers[1]);
  cudaMemsetParams set = {};
  NEED(cudaGraphMemsetNodeGetParams(n.set, &set));
  std::printf("set %d %u %u %zu\n", set.dst == buffers[0], set.value, set.elementSize, set.width);
  cudaHostNodeParams host = {};
  NEED(cudaGraphHostNodeGetParams(n.host, &host));
  std::printf("host %d %d\n", host.fn == call_host, host.userData == &by);
  std::size_t nodes = 0, edges = 0, roots = 0, before = 0;
  NEED(cudaGraphGetNodes(n.graph, nullptr, &nodes));
  NEED(cudaGraphGetEdges(n.graph, nullptr, nullptr, nullptr, &edges));
  NEED(cudaGraphGetRootNodes(n.graph, nullptr, &roots));
  NEED(cudaGraphNodeGetDependencies(n.child, nullptr, nullptr, &before));
  std::printf("shape %zu %zu %zu %zu\n", nodes, edges, roots, before);
  cudaMemsetParams nothing = {};
  TELL(cudaGraphMemsetNodeGetParams(n.kernel, &nothing));
  TELL(cudaGraphAddMemcpyNode(nullptr, n.graph, nullptr, 0, nullptr));
  static_cast<void>(cudaGetLastError());
}

void launch(cudaGraphExec_t executable, cudaStream_t stream) {
  NEED(cudaGraphLaunch(executable, stream));
  NEED(cudaStreamSynchronize(stream));
  print_digest(on_host, sizeof on_host);
}

// Each node of the executable graph is given other work; then one is disabled.
void update(cudaGraphExec_t executable, const Nodes& n, cudaStream_t stream) {
  cudaMemsetParams set = {buffers[0], 0, 9, 1, kPart, 1};
  NEED(cudaGraphExecMemsetNodeSetParams(executable, n.set, &set));
  std::size_t words = kPart / 8;
  void* arguments[] = {&buffers[0], &second, &words};
  const cudaKernelNodeParams kernel = kernel_of(arguments);
  NEED(cudaGraphExecKernelNodeSetParams(executable, n.kernel, &kernel));
  NEED(cudaGraphExecMemcpyNodeSetParams1D(executable, n.row, second + 100, buffers[0], kPart / 2,
                                          cudaMemcpyDeviceToDevice));
  NEED(cudaGraphExecMemcpyNodeSetParamsToSymbol(executable, n.into, table, second, 500, 40, cudaMemcpyDeviceToDevice));
  NEED(cudaGraphExecMemcpyNodeSetParamsFromSymbol(executable, n.from, on_host, table, 500, 40, cudaMemcpyDeviceToHost));
  static int more = 10;
  const cudaHostNodeParams host = {call_host, &more};
  NEED(cudaGraphExecHostNodeSetParams(executable, n.host, &host));
  launch(executable, stream);
  NEED(cudaGraphNodeSetEnabled(executable, n.kernel, 0));
  unsigned enabled = 1;
  NEED(cudaGraphNodeGetEnabled(executable, n.kernel, &enabled));
  std::printf("enabled %u\n", enabled);
  launch(executable, stream);
}

int main() {
  make_buffers();
  second = buffers[1] + kWords / 4;
  mix_all();
  Nodes nodes;
  add_work(nodes);
  // Before memory nodes are added, because graphs with such nodes can not be cloned.
  cudaGraph_t copy;
  cudaGraphNode_t of_copy;
  NEED(cudaGraphClone(&copy, nodes.graph));
  add_memory(nodes);
  add_child(nodes);
  ask(nodes);
  NEED(cudaGraphNodeFindInClone(&of_copy, nodes.set, copy));
  cudaMemsetParams set = {second, 0, 3, 1, kPart, 1};
  NEED(cudaGraphMemsetNodeSetParams(of_copy, &set));
  cudaStream_t stream;
  NEED(cudaStreamCreate(&stream));
  cudaGraphInstantiateParams how = {};
  cudaGraphExec_t executable, executable_copy;
  NEED(cudaGraphInstantiateWithParams(&executable, nodes.graph, &how));
  std::printf("instantiated %d\n", static_cast<int>(how.result_out));
  launch(executable, stream);
  mix_all();
  NEED(cudaDeviceSynchronize());
  update(executable, nodes, stream);
  NEED(cudaGraphExecDestroy(executable));
  NEED(cudaGraphInstantiate(&executable_copy, copy, 0));
  launch(executable_copy, stream);
  NEED(cudaGraphExecDestroy(executable_copy));
  NEED(cudaGraphDestroy(copy));
  NEED(cudaGraphDestroy(nodes.graph));
  NEED(cudaDeviceGraphMemTrim(0));
  std::printf("calls %d\n", calls);
  mix_all();
  return finish();
}
