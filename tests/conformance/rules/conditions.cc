// SPDX-License-Identifier: Apache-2.0
// Conditional nodes, with default values only: kernels that set conditions must be linked with NVIDIA's device runtime,
// which is not available to rules.
#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "capture";
constexpr std::uint32_t kCount = 1024;
constexpr std::size_t kSize = kCount * sizeof(std::uint32_t);
#define GRAPHS "Graph Management: "
#define NODES "Programming Guide: CUDA Graphs, Conditional Graph Nodes, "

struct Deciding {
  CUgraph graph = nullptr;
  CUgraph* bodies = nullptr;
};

CUgraphConditionalHandle handle_of(Session& session, CUgraph graph, unsigned value) {
  const Driver& cu = session.driver();
  CUcontext context = nullptr;
  CUgraphConditionalHandle handle = 0;
  OK(cu.cuCtxGetCurrent(&context));
  OK(cu.cuGraphConditionalHandleCreate(&handle, graph, context, value, CU_GRAPH_COND_ASSIGN_DEFAULT));
  return handle;
}

CUgraphNodeParams conditional(Session& session, CUgraphConditionalHandle handle, CUgraphConditionalNodeType type,
                              unsigned bodies) {
  const Driver& cu = session.driver();
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = handle;
  params.conditional.type = type;
  params.conditional.size = bodies;
  OK(cu.cuCtxGetCurrent(&params.conditional.ctx));
  return params;
}

// A graph of one node.
Deciding deciding(Session& session, unsigned value, CUgraphConditionalNodeType type, unsigned bodies) {
  const Driver& cu = session.driver();
  Deciding made;
  OK(cu.cuGraphCreate(&made.graph, 0));
  CUgraphNodeParams params = conditional(session, handle_of(session, made.graph, value), type, bodies);
  CUgraphNode node = nullptr;
  OK(cu.cuGraphAddNode(&node, made.graph, nullptr, nullptr, 0, &params));
  made.bodies = params.conditional.phGraph_out;
  return made;
}

void add_set(Session& session, CUgraph body, CUdeviceptr at, unsigned value) {
  const Driver& cu = session.driver();
  CUcontext context = nullptr;
  CUgraphNode node = nullptr;
  CUDA_MEMSET_NODE_PARAMS set{};
  set.dst = at;
  set.value = value;
  set.elementSize = 4;
  set.width = kCount;
  set.height = 1;
  OK(cu.cuCtxGetCurrent(&context));
  OK(cu.cuGraphAddMemsetNode(&node, body, nullptr, 0, &set, context));
}

CUgraphExec launchable(Session& session, CUgraph graph) {
  const Driver& cu = session.driver();
  CUgraphExec ready = nullptr;
  OK(cu.cuGraphInstantiate(&ready, graph, 0));
  return ready;
}

void launch(Session& session, CUgraph graph) {
  const Driver& cu = session.driver();
  const CUstream in = session.stream();
  OK(cu.cuGraphLaunch(launchable(session, graph), in));
  OK(cu.cuStreamSynchronize(in));
}

RULE(condition_runs_its_body, "The first body of a condition runs if its value is not zero, the second if it is",
     NODES "Conditional IF Nodes") {
  const CUdeviceptr out = session.allocate(kSize);
  for (const unsigned value : {2u, 0u}) {
    const Deciding made = deciding(session, value, CU_GRAPH_COND_TYPE_IF, 2);
    add_set(session, made.bodies[0], out, 11);
    add_set(session, made.bodies[1], out, 22);
    launch(session, made.graph);
    HOLDS(session.holds(out, kCount, value != 0 ? 11 : 22), "the body of the value ran, and no other");
  }
}

RULE(condition_of_a_loop_is_asked_first, "A loop whose condition is false when it is reached does not run",
     NODES "Conditional WHILE Nodes") {
  const CUdeviceptr out = session.allocate(kSize);
  session.write(out, std::vector<std::uint32_t>(kCount, 3));
  OK(cu.cuCtxSynchronize());
  const Deciding made = deciding(session, 0, CU_GRAPH_COND_TYPE_WHILE, 1);
  add_set(session, made.bodies[0], out, 11);
  launch(session, made.graph);
  HOLDS(session.holds(out, kCount, 3), "nothing was written");
}

RULE(condition_selects_a_body, "A value selects the body with its number, or none if there is none",
     NODES "Conditional SWITCH Nodes") {
  const CUdeviceptr out = session.allocate(kSize);
  for (const unsigned value : {1u, 2u, 7u}) {
    session.write(out, std::vector<std::uint32_t>(kCount, 3));
    OK(cu.cuCtxSynchronize());
    const Deciding made = deciding(session, value, CU_GRAPH_COND_TYPE_SWITCH, 3);
    for (unsigned i = 0; i < 3; ++i) add_set(session, made.bodies[i], out, 10 + i);
    launch(session, made.graph);
    HOLDS(session.holds(out, kCount, value < 3 ? 10 + value : 3), "the body of the value ran, and no other");
  }
}

RULE(streams_record_bodies, "A stream can record into the body of a condition",
     GRAPHS "cuGraphAddNode, cuStreamBeginCaptureToGraph") {
  const CUdeviceptr out = session.allocate(kSize);
  const Deciding made = deciding(session, 1, CU_GRAPH_COND_TYPE_IF, 1);
  const CUstream in = session.stream();
  OK(cu.cuStreamBeginCaptureToGraph(in, made.bodies[0], nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(cu.cuMemsetD32Async(out, 7, kCount, in));
  session.add(out, kCount, 2, in);
  OK(cu.cuStreamEndCapture(in, nullptr));
  launch(session, made.graph);
  HOLDS(session.holds(out, kCount, 9), "what was recorded ran");
}

RULE(conditions_are_of_one_graph,
     "A graph with a condition cannot be copied, be a child, or be launchable twice at once",
     "Data types used by CUDA driver: CU_GRAPH_NODE_TYPE_CONDITIONAL", .open = "which error") {
  const Deciding made = deciding(session, 1, CU_GRAPH_COND_TYPE_IF, 1);
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

}  // namespace
}  // namespace conformance
