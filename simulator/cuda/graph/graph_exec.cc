// SPDX-License-Identifier: Apache-2.0
// Executable graphs: instantiation, updates, launches.
//
// A launch is queued as operations that are ordered only by the graph's edges, between two markers in the stream. So
// the engines, the adversarial orders and the race checker see exactly the graph's edges.
#include "simulator/cuda/graph/graph.h"

#include <algorithm>
#include <unordered_map>

#include "simulator/cuda/graph/capture.h"
#include "simulator/cuda/graph/graph_conditions.h"
#include "simulator/cuda/graph/graph_memory.h"

namespace simulator::cuda {
namespace {

class Launching {
 public:
  Launching(Machine& machine, StreamId stream, std::shared_ptr<Conditions> conditions)
      : machine_(machine), stream_(stream), conditions_(std::move(conditions)) {}

  // Queues the graph after `first`; returns the operations that no other one in it is ordered after, or `first` for an
  // empty graph.
  std::vector<OperationId> queue(const CUgraph_st& graph, const std::vector<OperationId>& first) {
    std::unordered_map<const CUgraphNode_st*, std::vector<OperationId>> ends;
    std::unordered_map<const CUgraphNode_st*, bool> is_last;
    for (const CUgraphNode node : in_order(graph)) {
      std::vector<OperationId> after = node->after.empty() ? first : std::vector<OperationId>{};
      for (const CUgraphNode before : node->after) {
        after.insert(after.end(), ends[before].begin(), ends[before].end());
        is_last[before] = false;
      }
      ends[node] = queue(*node, after);
      is_last[node] = true;
    }
    std::vector<OperationId> last;
    for (const auto& node : graph.nodes) {
      if (is_last[node]) last.insert(last.end(), ends[node].begin(), ends[node].end());
    }
    if (last.empty()) last = first;
    return last;
  }

 private:
  std::vector<OperationId> queue(const CUgraphNode_st& node, std::vector<OperationId>& after) {
    if (node.child != nullptr) return queue(*node.child, after);
    // A node that is disabled keeps its position and does nothing.
    const bool event_wait = node.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    if (event_wait && state().events.has(node.event)) after.push_back(machine_.recorded(node.event->id));
    const Machine::Order order{.after = {after.data(), after.size()},
                               .detached = true,
                               .branch = ++branches_,
                               .uncharged = true,
                               .device = node.device};
    if (node.memory != nullptr) return {queue_graph_memory(machine_, stream_, node, order)};
    if (node.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD && state().events.has(node.event)) {
      node.event->captured = {};
      return {machine_.record_event(node.event->id, stream_, order)};
    }
    if (!node.value_work.empty()) return {queue_values(node, order)};
    return {machine_.submit(stream_, node.is_enabled ? work_of(node, conditions_) : Work(Marker{}), order)};
  }

  OperationId queue_values(const CUgraphNode_st& node, Machine::Order order) {
    OperationId last = 0;
    for (const Work& work : node.value_work) {
      const OperationId before = last;
      if (before != 0) order.after = {&before, 1};
      last = machine_.submit(stream_, work, order);
    }
    return last;
  }

  Machine& machine_;
  StreamId stream_;
  std::shared_ptr<Conditions> conditions_;
  std::uint64_t branches_ = 0;
};

}  // namespace

CUresult launch_graph(Call& call, CUgraphExec graph, StreamId stream) {
  Machine& machine = call.machine();
  machine.wait_for_queue(stream);
  if (const CUresult result = begin_graph_memory(call, *graph, stream); result != CUDA_SUCCESS) return result;
  machine.charge(Cost::kLaunch);
  const OperationId before = graph->last;
  Work begin = Marker{};
  if (graph->conditions != nullptr) begin = default_conditions(*graph->graph, graph->conditions);
  const std::vector<OperationId> first = {machine.submit(
      stream, std::move(begin), {.after = {&before, 1}, .detached = false, .branch = 0, .uncharged = true})};
  const std::vector<OperationId> last = Launching(machine, stream, graph->conditions).queue(*graph->graph, first);
  graph->last = machine.submit(
      stream, Marker{}, {.after = {last.data(), last.size()}, .detached = false, .branch = 0, .uncharged = true});
  machine.queued(stream, graph->last);
  return call.machine().error();
}

}  // namespace simulator::cuda

using namespace simulator;
using namespace simulator::cuda;

namespace {

constexpr unsigned long long kKnownFlags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                           CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                           CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

bool is_launchable(State& state, const CUgraph_st& graph) {
  bool found = false;
  state.graph_execs.for_each([&](const CUgraphExec_st& exec) { found |= exec.source == graph.number; });
  return found;
}

CUresult instantiate(CUgraphExec* out, CUgraph graph, unsigned long long flags, CUgraphInstantiateResult* why = nullptr,
                     const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  if (out == nullptr || !call.state().graphs.has(graph)) return CUDA_ERROR_INVALID_VALUE;
  constexpr unsigned long long kForDevice = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  if ((flags & kForDevice) != 0 && !call.machine().fault_plan().device_launches) return CUDA_ERROR_NOT_SUPPORTED;
  if ((flags & ~(kKnownFlags | kForDevice)) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (in_order(*graph).size() != graph->nodes.size()) return CUDA_ERROR_INVALID_VALUE;
  if ((has_memory_nodes(*graph) || has_conditional_nodes(*graph)) && is_launchable(call.state(), *graph))
    return CUDA_ERROR_NOT_SUPPORTED;
  if (const auto result = check_conditions(call.machine(), *graph); result != CUDA_GRAPH_INSTANTIATE_SUCCESS) {
    if (why != nullptr) *why = result;
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUgraphExec_st ready;
  ready.conditions = conditions_of(*graph);
  ready.graph = clone_graph(call.state(), graph);
  ready.flags = flags;
  ready.source = graph->number;
  *out = call.state().graph_execs.add(ready);
  return CUDA_SUCCESS;
}

// The node of the executable graph that was made from the program's node; null: none.
CUgraphNode find(Call& call, CUgraphExec graph, CUgraphNode node) {
  if (!call.state().graph_execs.has(graph) || !call.state().graph_nodes.has(node)) return nullptr;
  return find_in(*graph->graph, node->graph, node);
}

// Whether a node of an executable graph can get these parameters (cuGraphExecBatchMemOpNodeSetParams): operations keep
// their context, number and types, barriers and flushes stay as they are.
bool fits(const CUgraphNode_st& own, const CUgraphNode_st& wanted) {
  const auto &before = own.value_operations, &after = wanted.value_operations;
  const auto is_same = [](const CUstreamBatchMemOpParams& a, const CUstreamBatchMemOpParams& b) {
    if (a.operation != b.operation) return false;
    if (a.operation == CU_STREAM_MEM_OP_BARRIER) return a.memoryBarrier.flags == b.memoryBarrier.flags;
    const bool waits = a.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || a.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    return !waits || ((a.waitValue.flags ^ b.waitValue.flags) & CU_STREAM_WAIT_VALUE_FLUSH) == 0;
  };
  // A captured node has no context of its own.
  const CUcontext from = own.values.ctx, to = wanted.values.ctx;
  return (from == to || from == nullptr || to == nullptr) && std::ranges::equal(before, after, is_same);
}

template <typename Make>
CUresult set_params(CUgraphExec graph, CUgraphNode node, Make make, const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  if (!call.state().graph_execs.has(graph)) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNode own = find(call, graph, node);
  if (own == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNode_st made;
  if (const CUresult result = make(call, &made); result != CUDA_SUCCESS) return result;
  if (made.type != own->type || !fits(*own, made)) return CUDA_ERROR_INVALID_VALUE;
  set_contents(call.state(), own, made);
  return CUDA_SUCCESS;
}

std::size_t place_of(const CUgraph_st& graph, CUgraphNode node) {
  return static_cast<std::size_t>(std::find(graph.nodes.begin(), graph.nodes.end(), node) - graph.nodes.begin());
}

// Whether both graphs have the same nodes with the same dependencies; else the node of `from` that differs.
CUgraphExecUpdateResult compare(const CUgraph_st& own, const CUgraph_st& from, CUgraphNode* differs) {
  *differs = nullptr;
  if (own.nodes.size() != from.nodes.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  for (std::size_t i = 0; i < own.nodes.size(); ++i) {
    *differs = from.nodes[i];
    const CUgraphNode_st &a = *own.nodes[i], &b = *from.nodes[i];
    if (a.type != b.type) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (a.after.size() != b.after.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (std::size_t j = 0; j < a.after.size(); ++j) {
      if (place_of(own, a.after[j]) != place_of(from, b.after[j])) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    }
    if (a.conditional.type != b.conditional.type || a.bodies.size() != b.bodies.size() || !fits(a, b))
      return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    CUgraphNode within = nullptr;
    for (std::size_t j = 0; j < a.bodies.size(); ++j) {
      if (const auto result = compare(*a.bodies[j], *b.bodies[j], &within); result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
        return result;
    }
    if (a.child == nullptr) continue;
    if (const auto result = compare(*a.child, *b.child, &within); result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return result;
  }
  *differs = nullptr;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUresult update(CUgraphExec graph, CUgraph from, CUgraphExecUpdateResultInfo* info,
                const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  State& state = call.state();
  if (info == nullptr || !state.graph_execs.has(graph) || !state.graphs.has(from)) return CUDA_ERROR_INVALID_VALUE;
  info->errorFromNode = nullptr;
  // Memory of another graph can not be used by this one.
  const bool is_of_others = graph->source != from->number;
  info->result = is_of_others && (has_memory_nodes(*graph->graph) || has_memory_nodes(*from))
                     ? CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED
                     : compare(*graph->graph, *from, &info->errorNode);
  if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  for (std::size_t i = 0; i < from->nodes.size(); ++i) set_contents(state, graph->graph->nodes[i], *from->nodes[i]);
  graph->graph->conditions = from->conditions;
  graph->conditions = conditions_of(*from);
  return CUDA_SUCCESS;
}

CUresult set_kernel(CUgraphExec graph, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* params,
                    const char* caller = __builtin_FUNCTION()) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return set_params(
      graph, node, [&](Call& call, CUgraphNode_st* made) { return make_kernel_node(call, *params, made); }, caller);
}

CUresult set_event(CUgraphExec graph, CUgraphNode node, CUgraphNodeType type, CUevent event,
                   const char* caller = __builtin_FUNCTION()) {
  return set_params(
      graph, node, [&](Call& call, CUgraphNode_st* made) { return make_event_node(call, type, event, made); }, caller);
}

CUresult find_stream_of(Call& call, CUgraphExec graph, CUstream stream, StreamId* id) {
  if (const CUresult result = call.find(stream, id); result != CUDA_SUCCESS) return result;
  return call.state().graph_execs.has(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

SIMULATED_API CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, std::size_t) {
  return instantiate(out, graph, 0);
}
SIMULATED_API CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, std::size_t) {
  return instantiate(out, graph, 0);
}
SIMULATED_API CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  // Uploading needs a stream, which this form does not have.
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) return CUDA_ERROR_INVALID_VALUE;
  return instantiate(out, graph, flags);
}
SIMULATED_API CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                                    CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphInstantiateResult why = CUDA_GRAPH_INSTANTIATE_ERROR;
  const CUresult result = instantiate(out, graph, params->flags, &why);
  params->hErrNode_out = nullptr;
  params->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : why;
  return result;
}

SIMULATED_API CUresult cuGraphExecDestroy(CUgraphExec graph) {
  Call call;
  if (!call) return call.result();
  if (!call.state().graph_execs.has(graph)) return CUDA_ERROR_INVALID_VALUE;
  destroy_graph(call.state(), graph->graph);  // launches have copies of their own
  call.state().graph_execs.remove(graph);
  sweep_graph_memory(call);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuGraphExecGetFlags(CUgraphExec graph, cuuint64_t* flags) {
  Call call;
  if (!call) return call.result();
  if (flags == nullptr || !call.state().graph_execs.has(graph)) return CUDA_ERROR_INVALID_VALUE;
  *flags = graph->flags;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuGraphUpload(CUgraphExec graph, CUstream stream) {
  Call call;
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = find_stream_of(call, graph, stream, &id); result != CUDA_SUCCESS) return result;
  if (const CUresult result = back_graph_memory(call, *graph->graph); result != CUDA_SUCCESS) return result;
  return cuda::submit(call, id, Marker{});
}

SIMULATED_API CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  Call call;
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = find_stream_of(call, graph, stream, &id); result != CUDA_SUCCESS) return result;
  if (Captured* const recording = captured(call.state(), id)) {
    if (has_memory_nodes(*graph->graph) || has_conditional_nodes(*graph->graph))
      return invalidate(*recording->capture, CUDA_ERROR_NOT_SUPPORTED);
    CUgraphNode_st node;
    node.type = CU_GRAPH_NODE_TYPE_GRAPH;
    node.child = graph->graph;
    return add_captured(call, *recording, std::move(node));
  }
  if (const CUresult result = may_wait_for_stream(call, id); result != CUDA_SUCCESS) return result;
  return launch_graph(call, graph, id);
}

SIMULATED_API CUresult cuGraphExecKernelNodeSetParams(CUgraphExec graph, CUgraphNode node,
                                                      const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS_v2 params{p->func,         p->gridDimX,  p->gridDimY,  p->gridDimZ,
                                          p->blockDimX,    p->blockDimY, p->blockDimZ, p->sharedMemBytes,
                                          p->kernelParams, p->extra,     nullptr,      nullptr};
  return set_kernel(graph, node, &params);
}
SIMULATED_API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec graph, CUgraphNode node,
                                                         const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return set_kernel(graph, node, params);
}

SIMULATED_API CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec graph, CUgraphNode node, const CUDA_MEMCPY3D* params,
                                                      CUcontext) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return set_params(graph, node, [&](Call& call, CUgraphNode_st* made) { return make_copy_node(call, *params, made); });
}

SIMULATED_API CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec graph, CUgraphNode node,
                                                      const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return set_params(graph, node, [&](Call& call, CUgraphNode_st* made) { return make_set_node(call, *params, made); });
}

SIMULATED_API CUresult cuGraphExecHostNodeSetParams(CUgraphExec graph, CUgraphNode node,
                                                    const CUDA_HOST_NODE_PARAMS* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return set_params(graph, node, [&](Call&, CUgraphNode_st* made) { return make_host_node(*params, made); });
}

SIMULATED_API CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec graph, CUgraphNode node,
                                                          const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return set_params(graph, node,
                    [&](Call& call, CUgraphNode_st* made) { return make_value_node(call, *params, made); });
}

SIMULATED_API CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec graph, CUgraphNode node, CUgraph child) {
  return set_params(graph, node, [&](Call& call, CUgraphNode_st* made) -> CUresult {
    if (const CUresult result = make_child_node(call, child, made); result != CUDA_SUCCESS) return result;
    CUgraphNode differs = nullptr;
    const CUgraphNode own = find(call, graph, node);
    return own->child != nullptr && compare(*own->child, *child, &differs) == CU_GRAPH_EXEC_UPDATE_SUCCESS
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
  });
}

SIMULATED_API CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec graph, CUgraphNode node, CUevent event) {
  return set_event(graph, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}
SIMULATED_API CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec graph, CUgraphNode node, CUevent event) {
  return set_event(graph, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

SIMULATED_API CUresult cuGraphExecNodeSetParams(CUgraphExec graph, CUgraphNode node, CUgraphNodeParams* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return set_params(graph, node, [&](Call& call, CUgraphNode_st* made) { return make_node(call, *params, made); });
}

SIMULATED_API CUresult cuGraphNodeSetEnabled(CUgraphExec graph, CUgraphNode node, unsigned enabled) {
  Call call;
  if (!call) return call.result();
  CUgraphNode own = find(call, graph, node);
  if (own == nullptr || (own->type != CU_GRAPH_NODE_TYPE_KERNEL && own->type != CU_GRAPH_NODE_TYPE_MEMCPY &&
                         own->type != CU_GRAPH_NODE_TYPE_MEMSET))
    return CUDA_ERROR_INVALID_VALUE;
  own->is_enabled = enabled != 0;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuGraphNodeGetEnabled(CUgraphExec graph, CUgraphNode node, unsigned* enabled) {
  Call call;
  if (!call) return call.result();
  const CUgraphNode own = find(call, graph, node);
  if (own == nullptr || enabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *enabled = own->is_enabled ? 1 : 0;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuGraphExecUpdate_v2(CUgraphExec graph, CUgraph from, CUgraphExecUpdateResultInfo* info) {
  return update(graph, from, info);
}

SIMULATED_API CUresult cuGraphExecUpdate(CUgraphExec graph, CUgraph from, CUgraphNode* node,
                                         CUgraphExecUpdateResult* result) {
  CUgraphExecUpdateResultInfo info{};
  const CUresult status = update(graph, from, &info);
  if (node != nullptr) *node = info.errorNode;
  if (result != nullptr) *result = info.result;
  return status;
}
