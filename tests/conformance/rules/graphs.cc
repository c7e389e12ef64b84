// SPDX-License-Identifier: Apache-2.0
// Graphs: recorded across streams, built node by node, changed, launched.
#include <thread>

#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "capture";
#define GRAPHS "Graph Management: "

constexpr std::uint32_t kCount = 1024;
constexpr std::size_t kSize = kCount * sizeof(std::uint32_t);

CUdeviceptr zeroed(Session& session) {
  const CUdeviceptr at = session.allocate(kSize);
  session.require(session.driver().cuMemsetD32(at, 0, kCount), "cuMemsetD32", {CUDA_SUCCESS});
  session.synchronize();
  return at;
}

struct Addition {
  CUdeviceptr at;
  std::uint32_t words = kCount;
  std::uint32_t value;
  void* list[3];
  CUDA_KERNEL_NODE_PARAMS params{};

  Addition(Session& session, CUdeviceptr to, std::uint32_t add) : at(to), value(add), list{&at, &words, &value} {
    params.func = session.function("conformance_add");
    params.gridDimX = kCount / 128;
    params.blockDimX = 128;
    params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = list;
  }
  Addition(const Addition&) = delete;
  Addition& operator=(const Addition&) = delete;
};

CUDA_MEMSET_NODE_PARAMS set_to(CUdeviceptr at, unsigned value) {
  CUDA_MEMSET_NODE_PARAMS set{};
  set.dst = at;
  set.value = value;
  set.elementSize = 4;
  set.width = kCount;
  set.height = 1;
  return set;
}

CUDA_MEMCPY3D copy_of(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.WidthInBytes = kSize;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUcontext context_of(Session& session) {
  CUcontext current = nullptr;
  session.require(session.driver().cuCtxGetCurrent(&current), "cuCtxGetCurrent", {CUDA_SUCCESS});
  return current;
}

RULE(nodes_run_in_order_of_their_edges, "Each node of a graph runs after those that it depends on",
     GRAPHS "cuGraphAddMemsetNode, cuGraphAddKernelNode, cuGraphAddMemcpyNode") {
  const CUdeviceptr at = zeroed(session), to = zeroed(session);
  const CUcontext context = context_of(session);
  CUgraph graph = nullptr;
  OK(cu.cuGraphCreate(&graph, 0));
  CUgraphNode set = nullptr, add = nullptr, copy = nullptr;
  const CUDA_MEMSET_NODE_PARAMS five = set_to(at, 5);
  OK(cu.cuGraphAddMemsetNode(&set, graph, nullptr, 0, &five, context));
  const Addition two(session, at, 2);
  OK(cu.cuGraphAddKernelNode(&add, graph, &set, 1, &two.params));
  const CUDA_MEMCPY3D out = copy_of(to, at);
  OK(cu.cuGraphAddMemcpyNode(&copy, graph, &add, 1, &out, context));
  CUgraphExec ready = nullptr;
  OK(cu.cuGraphInstantiate(&ready, graph, 0));
  const CUstream in = session.stream();
  for (int i = 0; i < 2; ++i) OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(to, kCount, 7), "set, then added to, then copied");
}

RULE(launches_of_one_graph_follow_each_other,
     "Launches of the same executable graph run one after another, also in different streams", GRAPHS "cuGraphLaunch") {
  const CUdeviceptr at = zeroed(session);
  CUgraph graph = nullptr;
  CUgraphNode add = nullptr;
  OK(cu.cuGraphCreate(&graph, 0));
  const Addition one(session, at, 1);
  OK(cu.cuGraphAddKernelNode(&add, graph, nullptr, 0, &one.params));
  CUgraphExec ready = nullptr;
  OK(cu.cuGraphInstantiate(&ready, graph, 0));
  const CUstream streams[] = {session.stream(), session.stream()};
  for (int i = 0; i < 6; ++i) OK(cu.cuGraphLaunch(ready, streams[i % 2]));
  for (const CUstream stream : streams) OK(cu.cuStreamSynchronize(stream));
  HOLDS(session.holds(at, kCount, 6), "no addition was lost");
}

RULE(executable_graph_is_a_copy, "Changes of a graph after instantiation do not change the executable one",
     GRAPHS "cuGraphInstantiate") {
  const CUdeviceptr at = zeroed(session);
  CUgraph graph = nullptr;
  CUgraphNode add = nullptr;
  OK(cu.cuGraphCreate(&graph, 0));
  const Addition three(session, at, 3);
  OK(cu.cuGraphAddKernelNode(&add, graph, nullptr, 0, &three.params));
  CUgraphExec ready = nullptr;
  OK(cu.cuGraphInstantiate(&ready, graph, 0));
  OK(cu.cuGraphDestroy(graph));
  const CUstream in = session.stream();
  OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, kCount, 3), "it ran");
}

RULE(kernel_of_executable_graph_can_change,
     "New parameters for a node of an executable graph apply from the next launch on",
     GRAPHS "cuGraphExecKernelNodeSetParams") {
  const CUdeviceptr at = zeroed(session);
  CUgraph graph = nullptr;
  CUgraphNode add = nullptr;
  OK(cu.cuGraphCreate(&graph, 0));
  const Addition three(session, at, 3), forty(session, at, 40);
  OK(cu.cuGraphAddKernelNode(&add, graph, nullptr, 0, &three.params));
  CUgraphExec ready = nullptr;
  OK(cu.cuGraphInstantiate(&ready, graph, 0));
  const CUstream in = session.stream();
  OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuGraphExecKernelNodeSetParams(ready, add, &forty.params));
  OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, kCount, 43), "the launch before ran with the old ones");
}

RULE(executable_graph_takes_an_equal_shape,
     "An executable graph accepts the parameters of a graph of the same shape, and no other's",
     GRAPHS "cuGraphExecUpdate") {
  const CUdeviceptr at = zeroed(session);
  CUgraph graphs[3] = {};
  CUgraphNode node = nullptr;
  const Addition three(session, at, 3), forty(session, at, 40);
  for (CUgraph& graph : graphs) OK(cu.cuGraphCreate(&graph, 0));
  OK(cu.cuGraphAddKernelNode(&node, graphs[0], nullptr, 0, &three.params));
  OK(cu.cuGraphAddKernelNode(&node, graphs[1], nullptr, 0, &forty.params));
  OK(cu.cuGraphAddKernelNode(&node, graphs[2], nullptr, 0, &forty.params));
  OK(cu.cuGraphAddEmptyNode(&node, graphs[2], nullptr, 0));
  CUgraphExec ready = nullptr;
  OK(cu.cuGraphInstantiate(&ready, graphs[0], 0));
  CUgraphExecUpdateResultInfo info{};
  ANSWERS(cu.cuGraphExecUpdate(ready, graphs[2], &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  HOLDS(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, "the shape differs");
  OK(cu.cuGraphExecUpdate(ready, graphs[1], &info));
  HOLDS(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS, "the same shape");
  const CUstream in = session.stream();
  OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, kCount, 40), "the new parameters hold");
}

RULE(edges_make_no_circle,
     "An edge that closes a cycle makes the graph unusable: the edge is refused, or instantiation is",
     GRAPHS "cuGraphAddDependencies", .open = "which of the two") {
  CUgraph graph = nullptr;
  CUgraphNode nodes[2] = {};
  OK(cu.cuGraphCreate(&graph, 0));
  OK(cu.cuGraphAddEmptyNode(&nodes[0], graph, nullptr, 0));
  OK(cu.cuGraphAddEmptyNode(&nodes[1], graph, &nodes[0], 1));
  if (cu.cuGraphAddDependencies(graph, &nodes[1], &nodes[0], nullptr, 1) != CUDA_SUCCESS) return;
  CUgraphExec ready = nullptr;
  FAILS(cu.cuGraphInstantiate(&ready, graph, 0));
}

RULE(copies_of_graphs_know_their_nodes, "A copy of a graph has a node for each of the original's, and can return it",
     GRAPHS "cuGraphClone, cuGraphNodeFindInClone") {
  CUgraph graph = nullptr, copy = nullptr;
  CUgraphNode node = nullptr, twin = nullptr;
  OK(cu.cuGraphCreate(&graph, 0));
  OK(cu.cuGraphAddEmptyNode(&node, graph, nullptr, 0));
  OK(cu.cuGraphClone(&copy, graph));
  OK(cu.cuGraphNodeFindInClone(&twin, node, copy));
  HOLDS(twin != nullptr && twin != node, "another node");
  auto type = CU_GRAPH_NODE_TYPE_KERNEL;
  OK(cu.cuGraphNodeGetType(twin, &type));
  HOLDS(type == CU_GRAPH_NODE_TYPE_EMPTY, "of the same kind");
}

// A set to five, and two additions behind it.
struct Chain {
  CUgraph graph = nullptr;
  CUgraphNode set = nullptr, first = nullptr, second = nullptr;
  Addition two, ten;

  Chain(Session& session, CUdeviceptr at) : two(session, at, 2), ten(session, at, 10) {
    const CUDA_MEMSET_NODE_PARAMS five = set_to(at, 5);
    const auto ok = [&](CUresult result, const char* call) { session.require(result, call, {CUDA_SUCCESS}); };
    const Driver& cu = session.driver();
    ok(cu.cuGraphCreate(&graph, 0), "cuGraphCreate");
    ok(cu.cuGraphAddMemsetNode(&set, graph, nullptr, 0, &five, context_of(session)), "cuGraphAddMemsetNode");
    ok(cu.cuGraphAddKernelNode(&first, graph, &set, 1, &two.params), "cuGraphAddKernelNode");
    ok(cu.cuGraphAddKernelNode(&second, graph, &first, 1, &ten.params), "cuGraphAddKernelNode");
  }
};

RULE(nodes_of_copies_can_be_removed, "Nodes that are removed from a copy of a graph stay in the original",
     GRAPHS "cuGraphClone, cuGraphDestroyNode") {
  const CUdeviceptr at = zeroed(session);
  const Chain chain(session, at);
  CUgraph copy = nullptr;
  OK(cu.cuGraphClone(&copy, chain.graph));
  for (const CUgraphNode node : {chain.set, chain.first}) {
    CUgraphNode twin = nullptr;
    OK(cu.cuGraphNodeFindInClone(&twin, node, copy));
    OK(cu.cuGraphDestroyNode(twin));
  }
  std::size_t left = 0, edges = 0;
  OK(cu.cuGraphGetNodes(copy, nullptr, &left));
  OK(cu.cuGraphGetEdges(copy, nullptr, nullptr, nullptr, &edges));
  HOLDS(left == 1 && edges == 0, "one node is left, and no edge");
  CUgraphExec part = nullptr, whole = nullptr;
  OK(cu.cuGraphInstantiate(&part, copy, 0));
  OK(cu.cuGraphInstantiate(&whole, chain.graph, 0));
  const CUstream in = session.stream();
  OK(cu.cuGraphLaunch(part, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, kCount, 10), "only what is left ran");
  OK(cu.cuGraphLaunch(whole, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, kCount, 17), "the original has all of its nodes");
}

RULE(changes_of_copies_leave_the_original, "New parameters for a node of a copy of a graph do not change the original",
     GRAPHS "cuGraphClone, cuGraphKernelNodeSetParams") {
  const CUdeviceptr at = zeroed(session);
  const Chain chain(session, at);
  CUgraph copy = nullptr;
  CUgraphNode twin = nullptr;
  OK(cu.cuGraphClone(&copy, chain.graph));
  OK(cu.cuGraphNodeFindInClone(&twin, chain.second, copy));
  const Addition forty(session, at, 40);
  OK(cu.cuGraphKernelNodeSetParams(twin, &forty.params));
  CUgraphExec changed = nullptr, original = nullptr;
  OK(cu.cuGraphInstantiate(&changed, copy, 0));
  OK(cu.cuGraphInstantiate(&original, chain.graph, 0));
  OK(cu.cuGraphDestroy(chain.graph));
  const CUstream in = session.stream();
  OK(cu.cuGraphLaunch(changed, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, kCount, 47), "the copy has them");
  OK(cu.cuGraphLaunch(original, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, kCount, 17), "the original has its own");
}

RULE(disabled_nodes_keep_their_place, "A node that is disabled does nothing, and keeps the order of the others",
     GRAPHS "cuGraphNodeSetEnabled") {
  const CUdeviceptr at = zeroed(session);
  const Chain chain(session, at);
  CUgraphExec ready = nullptr;
  OK(cu.cuGraphInstantiate(&ready, chain.graph, 0));
  OK(cu.cuGraphNodeSetEnabled(ready, chain.first, 0));
  const CUstream in = session.stream();
  OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, kCount, 15), "set, then added to once");
  OK(cu.cuGraphNodeSetEnabled(ready, chain.first, 1));
  OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, kCount, 17), "and twice again");
}

RULE(updates_leave_nodes_disabled, "A node that is disabled stays so when its executable graph is updated",
     "Programming Guide: CUDA Graphs, Individual Node Enable") {
  const CUdeviceptr at = zeroed(session);
  const Chain chain(session, at), newer(session, at);
  CUgraphExec ready = nullptr;
  OK(cu.cuGraphInstantiate(&ready, chain.graph, 0));
  OK(cu.cuGraphNodeSetEnabled(ready, chain.first, 0));
  CUgraphExecUpdateResultInfo info{};
  OK(cu.cuGraphExecUpdate(ready, newer.graph, &info));
  const CUstream in = session.stream();
  OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, kCount, 15), "set, then added to once");
}

RULE(child_graphs_run_as_a_node, "A graph that is a node of another runs as a whole in the order of that node",
     GRAPHS "cuGraphAddChildGraphNode") {
  const CUdeviceptr at = zeroed(session);
  CUgraph inner = nullptr, outer = nullptr;
  CUgraphNode set = nullptr, child = nullptr, add = nullptr;
  const CUDA_MEMSET_NODE_PARAMS five = set_to(at, 5);
  const Addition two(session, at, 2), ten(session, at, 10);
  OK(cu.cuGraphCreate(&inner, 0));
  OK(cu.cuGraphAddKernelNode(&add, inner, nullptr, 0, &two.params));
  OK(cu.cuGraphAddKernelNode(&add, inner, &add, 1, &two.params));
  OK(cu.cuGraphCreate(&outer, 0));
  OK(cu.cuGraphAddMemsetNode(&set, outer, nullptr, 0, &five, context_of(session)));
  OK(cu.cuGraphAddChildGraphNode(&child, outer, &set, 1, inner));
  OK(cu.cuGraphAddKernelNode(&add, outer, &child, 1, &ten.params));
  CUgraphExec ready = nullptr;
  OK(cu.cuGraphInstantiate(&ready, outer, 0));
  const CUstream in = session.stream();
  OK(cu.cuGraphLaunch(ready, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, kCount, 19), "between the nodes around it");
}

RULE(nodes_of_a_copys_child_graph_can_be_removed,
     "Nodes that are removed from a child graph of a copy do not run; the others do, in the same order",
     GRAPHS "cuGraphChildGraphNodeGetGraph, cuGraphNodeFindInClone, cuGraphDestroyNode") {
  const CUdeviceptr at = zeroed(session);
  const Chain chain(session, at);
  const Addition hundred(session, at, 100);
  CUgraph outer = nullptr, embedded = nullptr, copy = nullptr;
  CUgraphNode child = nullptr, add = nullptr, twin = nullptr;
  CUgraphNode within[3] = {};
  std::size_t count = 3;
  OK(cu.cuGraphCreate(&outer, 0));
  OK(cu.cuGraphAddChildGraphNode(&child, outer, nullptr, 0, chain.graph));
  OK(cu.cuGraphAddKernelNode(&add, outer, &child, 1, &hundred.params));
  OK(cu.cuGraphChildGraphNodeGetGraph(child, &embedded));
  OK(cu.cuGraphGetNodes(embedded, within, &count));
  HOLDS(count == 3, "three nodes within");
  OK(cu.cuGraphClone(&copy, outer));
  for (const CUgraphNode node : within) {
    CUgraphNodeType type{};
    OK(cu.cuGraphNodeGetType(node, &type));
    if (type != CU_GRAPH_NODE_TYPE_MEMSET) continue;
    OK(cu.cuGraphNodeFindInClone(&twin, node, copy));
    OK(cu.cuGraphDestroyNode(twin));
  }
  CUgraphExec part = nullptr, whole = nullptr;
  OK(cu.cuGraphInstantiate(&part, copy, 0));
  OK(cu.cuGraphInstantiate(&whole, outer, 0));
  const CUstream in = session.stream();
  OK(cu.cuGraphLaunch(part, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, kCount, 112), "what is left ran, and what comes behind it");
  OK(cu.cuGraphLaunch(whole, in));
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, kCount, 117), "the original has all of its nodes");
}

RULE(capture_becomes_nodes_and_edges, "The work that a stream captures becomes a chain of nodes",
     GRAPHS "cuGraphGetNodes, cuGraphGetEdges") {
  const CUdeviceptr at = zeroed(session);
  const CUstream in = session.stream();
  session.function("conformance_add");
  OK(cu.cuStreamBeginCapture(in, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(cu.cuMemsetD32Async(at, 1, kCount, in));
  session.add(at, kCount, 1, in);
  session.add(at, kCount, 1, in);
  CUgraph graph = nullptr;
  OK(cu.cuStreamEndCapture(in, &graph));
  std::size_t nodes = 0, edges = 0;
  OK(cu.cuGraphGetNodes(graph, nullptr, &nodes));
  OK(cu.cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  HOLDS(nodes == 3 && edges == 2, "three nodes, two edges");
}

RULE(forked_streams_have_to_join, "A capture in which another stream takes part ends only after that stream has joined",
     "Stream Management: cuStreamEndCapture") {
  const CUdeviceptr at = zeroed(session);
  const CUstream in = session.stream(), other = session.stream();
  const CUevent fork = session.event();
  session.function("conformance_add");
  OK(cu.cuStreamBeginCapture(in, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(cu.cuEventRecord(fork, in));
  OK(cu.cuStreamWaitEvent(other, fork, 0));
  session.add(at, kCount, 1, other);
  CUgraph graph = nullptr;
  ANSWERS(cu.cuStreamEndCapture(in, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

RULE(capture_ends_in_its_own_stream, "A capture ends in the stream that it began in",
     "Stream Management: cuStreamEndCapture") {
  const CUstream in = session.stream(), other = session.stream();
  const CUevent fork = session.event();
  OK(cu.cuStreamBeginCapture(in, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(cu.cuEventRecord(fork, in));
  OK(cu.cuStreamWaitEvent(other, fork, 0));
  CUgraph graph = nullptr;
  ANSWERS(cu.cuStreamEndCapture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
}

RULE(capture_waits_for_nothing_outside, "A capturing stream cannot wait for work that is not captured",
     "Programming Guide: CUDA Graphs, Cross-stream Dependencies and Events") {
  const CUstream in = session.stream(), other = session.stream();
  const CUevent event = session.event();
  OK(cu.cuEventRecord(event, other));
  OK(cu.cuStreamBeginCapture(in, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  ANSWERS(cu.cuStreamWaitEvent(in, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
}

RULE(captures_do_not_merge, "A capturing stream cannot wait for work of another capture",
     "Programming Guide: CUDA Graphs, Prohibited and Unhandled Operations") {
  const CUstream in = session.stream(), other = session.stream();
  const CUevent event = session.event();
  OK(cu.cuStreamBeginCapture(in, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(cu.cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(cu.cuEventRecord(event, in));
  ANSWERS(cu.cuStreamWaitEvent(other, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
}

RULE(legacy_stream_would_break_captures, "While a blocking stream captures, work in the legacy stream is refused",
     "Programming Guide: CUDA Graphs, Prohibited and Unhandled Operations") {
  const CUdeviceptr at = zeroed(session);
  const CUstream in = session.stream(CU_STREAM_DEFAULT);
  OK(cu.cuStreamBeginCapture(in, CU_STREAM_CAPTURE_MODE_RELAXED));
  ANSWERS(cu.cuMemsetD32Async(at, 0, kCount, nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

RULE(capture_ends_in_its_own_thread, "Unless its mode is relaxed, a capture ends in the thread that it began in",
     "Stream Management: cuStreamBeginCapture") {
  const CUstream in = session.stream();
  const CUcontext context = context_of(session);
  OK(cu.cuStreamBeginCapture(in, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CUresult result = CUDA_SUCCESS;
  std::thread([&] {
    CUgraph graph = nullptr;
    result = cu.cuCtxSetCurrent(context);
    if (result == CUDA_SUCCESS) result = cu.cuStreamEndCapture(in, &graph);
  }).join();
  HOLDS(result == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread's attempt is refused");
}

RULE(captures_are_numbered, "A capturing stream returns its capture's number, which no other capture has",
     "Stream Management: cuStreamGetCaptureInfo") {
  const CUstream streams[] = {session.stream(), session.stream()};
  cuuint64_t numbers[2] = {};
  for (int i = 0; i < 2; ++i) {
    OK(cu.cuStreamBeginCapture(streams[i], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    auto status = CU_STREAM_CAPTURE_STATUS_NONE;
    OK(cu.cuStreamGetCaptureInfo(streams[i], &status, &numbers[i], nullptr, nullptr, nullptr, nullptr));
    HOLDS(status == CU_STREAM_CAPTURE_STATUS_ACTIVE, "active");
  }
  HOLDS(numbers[0] != numbers[1], "two numbers");
}

}  // namespace
}  // namespace conformance
