// SPDX-License-Identifier: Apache-2.0
// Memory that graphs allocate, by nodes and by recorded calls.
#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "capture";
constexpr int kPools = CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
constexpr std::uint32_t kCount = 1024;
constexpr std::size_t kSize = kCount * sizeof(std::uint32_t);
#define GRAPHS "Graph Management: "
#define NODES "Programming Guide: CUDA Graphs, Graph Memory Nodes, "

CUDA_MEM_ALLOC_NODE_PARAMS allocation() {
  CUDA_MEM_ALLOC_NODE_PARAMS wanted{};
  wanted.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.bytesize = kSize;
  return wanted;
}

// A graph that allocates, sets, and copies to `out`.
struct Allocating {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr, last = nullptr;
  CUdeviceptr at = 0;
};
Allocating allocating(Session& session, CUdeviceptr out, unsigned value) {
  const Driver& cu = session.driver();
  Allocating made;
  CUDA_MEM_ALLOC_NODE_PARAMS wanted = allocation();
  CUcontext context = nullptr;
  OK(cu.cuCtxGetCurrent(&context));
  OK(cu.cuGraphCreate(&made.graph, 0));
  OK(cu.cuGraphAddMemAllocNode(&made.node, made.graph, nullptr, 0, &wanted));
  made.at = wanted.dptr;
  HOLDS(made.at != 0, "an address, before anything was launched");
  CUDA_MEMSET_NODE_PARAMS set{};
  set.dst = made.at;
  set.value = value;
  set.elementSize = 4;
  set.width = kCount;
  set.height = 1;
  OK(cu.cuGraphAddMemsetNode(&made.last, made.graph, &made.node, 1, &set, context));
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = made.at;
  copy.dstDevice = out;
  copy.WidthInBytes = kSize;
  copy.Height = copy.Depth = 1;
  OK(cu.cuGraphAddMemcpyNode(&made.last, made.graph, &made.last, 1, &copy, context));
  return made;
}

CUgraphExec launchable(Session& session, CUgraph graph, unsigned long long flags = 0) {
  const Driver& cu = session.driver();
  CUgraphExec ready = nullptr;
  OK(cu.cuGraphInstantiate(&ready, graph, flags));
  return ready;
}

cuuint64_t reserved(Session& session) {
  const Driver& cu = session.driver();
  cuuint64_t bytes = 0;
  OK(cu.cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes));
  return bytes;
}

RULE(graph_memory_has_its_address_at_once,
     "An allocation node has its address as soon as it is added; the memory can be used up to the node that frees it",
     GRAPHS "cuGraphAddMemAllocNode, cuGraphAddMemFreeNode", .needs = kPools) {
  const CUdeviceptr out = session.allocate(kSize);
  const Allocating made = allocating(session, out, 5);
  CUgraphNode freed = nullptr;
  OK(cu.cuGraphAddMemFreeNode(&freed, made.graph, &made.last, 1, made.at));
  const CUgraphExec ready = launchable(session, made.graph);
  const CUstream in = session.stream();
  for (int i = 0; i < 3; ++i) OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(out, kCount, 5), "the words came through the graph's memory");
}

RULE(graph_memory_nodes_tell_their_address, "Nodes that allocate and free return the address and the size",
     GRAPHS "cuGraphMemAllocNodeGetParams, cuGraphMemFreeNodeGetParams", .needs = kPools) {
  const Allocating made = allocating(session, session.allocate(kSize), 5);
  CUgraphNode freed = nullptr;
  OK(cu.cuGraphAddMemFreeNode(&freed, made.graph, &made.last, 1, made.at));
  CUDA_MEM_ALLOC_NODE_PARAMS told{};
  CUdeviceptr at = 0;
  OK(cu.cuGraphMemAllocNodeGetParams(made.node, &told));
  OK(cu.cuGraphMemFreeNodeGetParams(freed, &at));
  HOLDS(told.dptr == made.at && told.bytesize == kSize && at == made.at, "what was asked for");
}

RULE(recorded_allocation_belongs_to_its_graph,
     "Memory allocated and freed by a capturing stream belongs to the graph, at each launch",
     "Stream Ordered Memory Allocator: cuMemAllocAsync, cuMemFreeAsync", .needs = kPools) {
  const CUdeviceptr out = session.allocate(kSize);
  const CUstream in = session.stream();
  CUdeviceptr at = 0;
  CUgraph graph = nullptr;
  OK(cu.cuStreamBeginCapture(in, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(cu.cuMemAllocAsync(&at, kSize, in));
  OK(cu.cuMemsetD32Async(at, 9, kCount, in));
  OK(cu.cuMemcpyDtoDAsync(out, at, kSize, in));
  OK(cu.cuMemFreeAsync(at, in));
  OK(cu.cuStreamEndCapture(in, &graph));
  std::size_t nodes = 0;
  OK(cu.cuGraphGetNodes(graph, nullptr, &nodes));
  HOLDS(nodes == 4, "each call is a node");
  const CUgraphExec ready = launchable(session, graph);
  for (int i = 0; i < 3; ++i) OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(out, kCount, 9), "it was written and read");
}

RULE(graph_memory_lives_until_it_is_freed,
     "Memory that a graph allocates and does not free is used and freed by work after the launch",
     GRAPHS "cuGraphAddMemAllocNode", .needs = kPools) {
  const CUdeviceptr out = session.allocate(kSize);
  const Allocating made = allocating(session, out, 5);
  const CUgraphExec ready = launchable(session, made.graph);
  const CUstream in = session.stream();
  for (std::uint32_t i = 1; i <= 2; ++i) {
    OK(cu.cuGraphLaunch(ready, in));
    session.add(made.at, kCount, i, in);
    OK(cu.cuMemcpyDtoDAsync(out, made.at, kSize, in));
    OK(cu.cuMemFreeAsync(made.at, in));
  }
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(out, kCount, 7), "the last launch wrote it anew");
  OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
  OK(cu.cuMemFree(made.at));
  OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
}

RULE(unfreed_graph_memory_holds_up_launches, "A graph whose last launch left unfreed memory does not launch again",
     GRAPHS "cuGraphLaunch", .needs = kPools) {
  const Allocating made = allocating(session, session.allocate(kSize), 5);
  const CUgraphExec ready = launchable(session, made.graph);
  const CUstream in = session.stream();
  OK(cu.cuGraphLaunch(ready, in));
  ANSWERS(cu.cuGraphLaunch(ready, in), CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuMemFreeAsync(made.at, in));
  OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
}

RULE(launches_free_what_is_left, "With the flag for it a launch first frees what the previous one left",
     GRAPHS "cuGraphInstantiate: CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH", .needs = kPools) {
  const CUdeviceptr out = session.allocate(kSize);
  const Allocating made = allocating(session, out, 5);
  const CUgraphExec ready = launchable(session, made.graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  const CUstream in = session.stream();
  for (int i = 0; i < 3; ++i) OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(made.at, kCount, 5), "the last allocation is there");
  OK(cu.cuMemFree(made.at));
}

RULE(graph_memory_outlives_its_graph, "Memory that a graph left remains when the graph is destroyed, until it is freed",
     NODES "Freeing Graph Allocations", .needs = kPools) {
  const CUdeviceptr out = session.allocate(kSize);
  const Allocating made = allocating(session, out, 5);
  const CUgraphExec ready = launchable(session, made.graph);
  const CUstream in = session.stream();
  OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
  OK(cu.cuGraphExecDestroy(ready));
  OK(cu.cuGraphDestroy(made.graph));
  session.add(made.at, kCount, 3, in);
  OK(cu.cuMemcpyDtoDAsync(out, made.at, kSize, in));
  OK(cu.cuMemFreeAsync(made.at, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(out, kCount, 8), "it held what the graph had written");
}

RULE(graph_memory_is_freed_by_another_graph, "A graph may free what another one left", GRAPHS "cuGraphAddMemAllocNode",
     .needs = kPools) {
  const CUdeviceptr out = session.allocate(kSize);
  const Allocating made = allocating(session, out, 5);
  CUgraph other = nullptr;
  CUgraphNode freed = nullptr;
  OK(cu.cuGraphCreate(&other, 0));
  OK(cu.cuGraphAddMemFreeNode(&freed, other, nullptr, 0, made.at));
  const CUgraphExec ready = launchable(session, made.graph), end = launchable(session, other);
  const CUstream in = session.stream();
  for (int i = 0; i < 3; ++i) {
    OK(cu.cuGraphLaunch(ready, in));
    OK(cu.cuGraphLaunch(end, in));
  }
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(out, kCount, 5), "each launch found it free");
  ANSWERS(cu.cuGraphAddMemFreeNode(&freed, made.graph, &made.last, 1, made.at), CUDA_ERROR_INVALID_VALUE);
}

RULE(graph_memory_is_freed_once, "A graph frees an allocation once, and nothing but allocations of graphs",
     GRAPHS "cuGraphAddMemFreeNode", .needs = kPools) {
  const Allocating made = allocating(session, session.allocate(kSize), 5);
  CUgraphNode freed = nullptr;
  OK(cu.cuGraphAddMemFreeNode(&freed, made.graph, &made.last, 1, made.at));
  ANSWERS(cu.cuGraphAddMemFreeNode(&freed, made.graph, &made.last, 1, made.at), CUDA_ERROR_INVALID_VALUE);
  ANSWERS(cu.cuGraphAddMemFreeNode(&freed, made.graph, &made.last, 1, session.allocate(kSize)),
          CUDA_ERROR_INVALID_VALUE);
}

RULE(graphs_with_memory_are_one, "A graph that allocates cannot be copied, be a child, or be launchable twice at once",
     GRAPHS "cuGraphAddMemAllocNode", .open = "which error", .needs = kPools) {
  const Allocating made = allocating(session, session.allocate(kSize), 5);
  CUgraph other = nullptr;
  CUgraphNode node = nullptr;
  ANSWERS(cu.cuGraphClone(&other, made.graph), CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuGraphCreate(&other, 0));
  ANSWERS(cu.cuGraphAddChildGraphNode(&node, other, nullptr, 0, made.graph), CUDA_ERROR_NOT_SUPPORTED,
          CUDA_ERROR_INVALID_VALUE);
  const CUgraphExec first = launchable(session, made.graph);
  CUgraphExec second = nullptr;
  ANSWERS(cu.cuGraphInstantiate(&second, made.graph, 0), CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuGraphExecDestroy(first));
  OK(cu.cuGraphInstantiate(&second, made.graph, 0));
}

RULE(graph_memory_is_kept_until_trimmed,
     "Memory that a launch took from the device stays with the driver until it is trimmed, and is counted",
     NODES "Physical Memory Footprint", .needs = kPools) {
  const Allocating made = allocating(session, session.allocate(kSize), 5);
  CUgraphNode freed = nullptr;
  OK(cu.cuGraphAddMemFreeNode(&freed, made.graph, &made.last, 1, made.at));
  OK(cu.cuDeviceGraphMemTrim(0));
  const cuuint64_t before = reserved(session);
  const CUgraphExec ready = launchable(session, made.graph);
  const CUstream in = session.stream();
  OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(reserved(session) >= before + kSize, "the launch took memory");
  OK(cu.cuGraphExecDestroy(ready));
  OK(cu.cuGraphDestroy(made.graph));
  HOLDS(reserved(session) >= before + kSize, "which is kept");
  OK(cu.cuDeviceGraphMemTrim(0));
  HOLDS(reserved(session) == before, "until it is trimmed");
}

}  // namespace
}  // namespace conformance
