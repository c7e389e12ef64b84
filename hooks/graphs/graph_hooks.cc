// SPDX-License-Identifier: Apache-2.0
// Graphs: instantiation, updates, launches. The memory that a node names matters only once an executable graph contains
// the node (graph_contents.h, graph_execs.h); a launch accesses what the executable graph names at that time. But the
// driver may check the memory of copies and sets when it is given such nodes, so the memory is on the device during the
// call.
#include <algorithm>
#include <utility>
#include <vector>

#include "hooks/capture/capture_state.h"
#include "hooks/graphs/cut_graphs.h"
#include "hooks/graphs/device_graphs.h"
#include "hooks/graphs/graph_contents.h"
#include "hooks/graphs/graph_execs.h"
#include "hooks/graphs/graph_memory.h"
#include "hooks/graphs/kept_graphs.h"
#include "hooks/graphs/stored_addresses.h"
#include "hooks/operands/values.h"
#include "hooks/pointers/tables_in_place.h"
#include "hooks/pointers/uploads.h"
#include "hooks/runtime/guarded.h"
#include "hooks/runtime/stream_context.h"
#include "hooks/submit/driver_room.h"
#include "hooks/submit/ends.h"
#include "hooks/submit/holding.h"
#include "hooks/submit/macros.h"
#include "hooks/submit/multi_device.h"
#include "hooks/submit/shapes.h"
#include "hooks/submit/stream_queues.h"

namespace thermocline {
namespace {

constexpr const char* kGiven = "being given to a graph";
// Handles up to this one mean the legacy stream, or a thread's own.
constexpr std::uintptr_t kImplicitStreams = 2;

bool is_hooked() { return !Inside::now(); }

CUresult hold(const AccessList& accesses, Call call) {
  if (accesses.empty() || engines_now() == nullptr) return call();
  if (const CUresult refused = refuse_past_an_end({}, accesses); refused != CUDA_SUCCESS) return refused;
  return guarded([&] {
    const HeldEngines engines;
    HeldForCall held;
    if (!engines.none()) {
      if (const CUresult result = held.hold(*engines, accesses, kGiven); result != CUDA_SUCCESS) return result;
    }
    return call();
  });
}

// If noting the contents fails, they are unknown: launches then count as accessing anything.
template <class Note>
void note(CUgraphExec exec, Note body) {
  const CUresult result = guarded([&] {
    const HeldEngines engines;
    body(engines.none() ? nullptr : &*engines);
    return CUDA_SUCCESS;
  });
  if (result == CUDA_SUCCESS) return;
  graph_exec_destroyed(exec);
  give_up_kept_graph(exec);
}

CUresult instantiate(CUgraphExec* exec, CUgraph graph, unsigned long long flags, Call call) {
  if (!is_hooked() || exec == nullptr) return call();
  const bool for_device = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0;
  const auto make = [&] {
    const CUresult result = with_driver_room([&] { return heard(call()); });
    if (result != CUDA_SUCCESS) return result;
    note(*exec, [&](const EngineSet* engines) {
      GraphContents contents = contents_of(engines, graph);
      keep_graph(*exec, graph, for_device ? GraphContents{} : contents, flags, false);
      graph_instantiated(*exec, std::move(contents), for_device);
    });
    return result;
  };
  if (!for_device) return make();
  return guarded([&] {
    PinnedBuffers pinned;
    const CUresult result = pin_for_device(contents_of(Runtime::get().engines(), graph), make, &pinned);
    if (result == CUDA_SUCCESS) device_graph_changed(*exec, pinned);
    return result;
  });
}

CUresult update(CUgraphExec exec, CUgraph graph, Call call) {
  if (is_hooked() && device_launches(exec)) {
    return guarded([&] {
      PinnedBuffers pinned;
      GraphContents contents = contents_of(Runtime::get().engines(), graph);
      const CUresult result = pin_for_device(contents, call, &pinned);
      if (result != CUDA_SUCCESS) return result;
      device_graph_changed(exec, pinned);
      graph_updated(exec, std::move(contents));
      return result;
    });
  }
  const CUresult result = call();
  if (result != CUDA_SUCCESS || !is_hooked()) return result;
  note(exec, [&](const EngineSet* engines) {
    GraphContents contents = contents_of(engines, graph);
    keep_graph(exec, graph, contents, 0, true);
    graph_updated(exec, std::move(contents));
  });
  return result;
}

CUresult set_child(CUgraphExec exec, CUgraphNode node, CUgraph child, Call call) {
  if (is_hooked() && device_launches(exec)) {
    return guarded([&] {
      PinnedBuffers pinned;
      const GraphContents contents = contents_of(Runtime::get().engines(), child);
      const CUresult result = pin_for_device(contents, call, &pinned);
      if (result != CUDA_SUCCESS) return result;
      graph_node_set(exec, node, {}, contents);
      device_graph_changed_in_part(exec, pinned);
      return result;
    });
  }
  const CUresult result = call();
  if (result != CUDA_SUCCESS || !is_hooked()) return result;
  note(exec, [&](const EngineSet* engines) {
    const GraphContents contents = contents_of(engines, child);
    kept_child_set(exec, node, child, contents);
    graph_node_set(exec, node, {}, contents);
  });
  return result;
}

// `read(engines)` returns what the node names from now on.
template <class Read>
CUresult set_node(CUgraphExec exec, CUgraphNode node, Read read, const NodeChange& change) {
  const auto call = [&] { return change.in_exec(exec, node); };
  if (!is_hooked()) return call();
  if (device_launches(exec)) {
    return guarded([&] {
      const NodeContents contents = read(Runtime::get().engines());
      PinnedBuffers pinned;
      const CUresult result = pin_for_device({{node, contents}}, call, &pinned);
      if (result != CUDA_SUCCESS) return result;
      graph_node_set(exec, node, contents);
      device_graph_changed_in_part(exec, pinned);
      return result;
    });
  }
  const CUresult result = call();
  if (result != CUDA_SUCCESS) return result;
  note(exec, [&](const EngineSet* engines) {
    NodeContents contents = read(engines);
    kept_node_set(exec, node, &contents, change);
    graph_node_set(exec, node, std::move(contents));
  });
  return result;
}

template <class Node>
CUresult set_kernel(CUgraphExec exec, CUgraphNode node, const Node* params, const NodeChange& change) {
  if (params == nullptr) return change.in_exec(exec, node);
  return set_node(
      exec, node,
      [&](const EngineSet* engines) {
        return contents_of_kernel(engines, function_of(*params), params->kernelParams, params->extra);
      },
      change);
}

// The memory that a node of another kind names, read from the node's own structure.
AccessList named_by(const CUDA_MEMCPY3D* copy) { return shape_of(copy).accesses; }
AccessList named_by(const CUDA_MEMSET_NODE_PARAMS* set) {
  AccessList accesses;
  if (set != nullptr) add_set(&accesses, *set);
  return accesses;
}
AccessList named_by(const CUDA_BATCH_MEM_OP_NODE_PARAMS* values) {
  AccessList accesses;
  if (values != nullptr) add_value_operations(values->paramArray, values->count, &accesses);
  return accesses;
}
AccessList named_by(const CUgraphNodeParams* node) {
  AccessList accesses;
  if (node != nullptr) add_node(*node, &accesses);
  return accesses;
}

NodeContents contents_of(const EngineSet* engines, AccessList accesses) {
  accesses.filter([&](DeviceAddress at) { return engines != nullptr && engines->owner(at) != nullptr; });
  NodeContents contents;
  contents.take(accesses);
  return contents;
}

template <class Node>
CUresult set_other(CUgraphExec exec, CUgraphNode node, const Node* params, const NodeChange& change) {
  const AccessList accesses = named_by(params);
  return hold(accesses, [&] {
    return set_node(
        exec, node, [&](const EngineSet* engines) { return contents_of(engines, accesses); }, change);
  });
}

CUresult set_any(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams* params, const NodeChange& change) {
  const auto call = [&] { return change.in_exec(exec, node); };
  if (params == nullptr) return call();
  if (params->type == CU_GRAPH_NODE_TYPE_GRAPH) return set_child(exec, node, params->graph.graph, call);
  return hold(named_by(params), [&] {
    return set_node(
        exec, node, [&](const EngineSet* engines) { return contents_of(engines, *params); }, change);
  });
}

// The event of a node that records it or waits for it.
CUresult set_event(CUgraphExec exec, CUgraphNode node, const NodeChange& change) {
  const CUresult result = change.in_exec(exec, node);
  if (result != CUDA_SUCCESS || !is_hooked()) return result;
  note(exec, [&](const EngineSet*) { kept_node_set(exec, node, nullptr, change); });
  return result;
}

CUresult add_any(CUgraph graph, const CUgraphNode* node, const CUgraphNodeParams* params, Call call) {
  if (params != nullptr && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) note_graph_allocates();
  const CUresult result = hold(named_by(params), call);
  if (result != CUDA_SUCCESS || params == nullptr || params->type != CU_GRAPH_NODE_TYPE_CONDITIONAL) return result;
  // If this fails, the contents are unknown: launches of the graph count as accessing anything.
  static_cast<void>(guarded([&] {
    forget_bodies_of(*node);
    remember_bodies(graph, *node, {params->conditional.phGraph_out, params->conditional.size});
    return CUDA_SUCCESS;
  }));
  return result;
}

// Whether all work that may write the host memory that the graph is about to upload has completed. Does not ask the
// driver if no pointers are stored that the upload could replace.
bool has_nothing_before(StreamHandle stream) {
  const HeldEngines engines;
  const auto stores_any = [](const ActiveEngine* active) { return active->engine->has_global_references(); };
  if (engines.none() || std::ranges::none_of(*engines, stores_any)) return false;
  if (any_capture() || static_cast<std::uintptr_t>(stream) <= kImplicitStreams) return false;
  const StreamPlace place = place_of(*engines, stream);
  if (place.refused || place.current != place.context) return false;
  const Inside inside;
  // A blocking stream is ordered after the legacy stream.
  return real<Function::cuStreamQuery>(to_cu(stream)) == CUDA_SUCCESS &&
         real<Function::cuStreamQuery>(CU_STREAM_LEGACY) == CUDA_SUCCESS;
}

// False: the memory that it names and the memory that it allocates exceed the budget; that has been reported. Trimming
// memory that the driver holds for graphs would only help such a launch to exceed the budget again.
bool fits_with_its_allocation(const GraphAccess& access) {
  if (access.largest.bytes == 0) return true;
  const HeldEngines engines;
  const ActiveEngine* const active = engines.none() ? nullptr : engines->on(access.largest.device);
  if (active == nullptr || Runtime::get().broken()) return true;
  const AccessList part = part_of(access.accesses, *active);
  return !active->engine->fits_beside(part.all(), access.largest.bytes).is_out_of_memory();
}

// The driver has accepted the launch. An exception must not look like a refusal: the program, or launch_in_segments,
// would launch again what runs already. Nor may addresses be lost that its kernels and copies store.
void launched(const GraphAccess& access, MayKeep may_keep) {
  const CUresult result = guarded([&] {
    if (const HeldEngines engines; !engines.none()) moved_outside(*engines, access.first);
    note_stored_addresses(access, may_keep);
    return CUDA_SUCCESS;
  });
  if (result == CUDA_SUCCESS) return;
  log_line(LogLevel::kError, "host memory ran out while the addresses that a CUDA graph stores were noted");
  Runtime::get().declare_broken();
}

// Launches a whole graph, or a part of one; `access`: its accesses.
CUresult submit_graph(StreamHandle stream, GraphAccess& access, MayKeep may_keep, Call call) {
  if (access.sources_may_change || access.first.empty() || !has_nothing_before(stream)) access.first.clear();
  if (const HeldEngines engines; !engines.none()) {
    expect_moves_outside(*engines, access.first);
    search_moves(*engines, access.moves, access.beyond, access.sources_may_change);
    add_tables_in_place(*engines, access.words_in_place, &access.accesses);
    name_stored_sources(*engines, access);
  }
  if (!access.is_known || any_node_changes_on_the_device()) return submit_unknown(stream, call);
  // Host functions of its nodes, and waits for what others do.
  const bool may_block = any_waits_for_values() || access.may_write_host;
  if (!fits_with_its_allocation(access)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result =
      submit(stream, Host::kGoesOn, std::move(access.accesses), {.follows = true, .may_block = may_block}, call);
  if (result == CUDA_SUCCESS) launched(access, may_keep);
  return result;
}

// Adds memory that the graph reaches through pointers: those that its own copies bring, and tables that are read in
// place. Pointers that the copies replace count, too: not all copies run before the first segment.
void look_ahead(const KeptGraph& kept, GraphAccess& access) {
  const HeldEngines engines;
  if (engines.none()) return;
  if (!access.is_known && kept.obstacle == nullptr) {
    access.sources_may_change = true;
    for (const auto& [node, one] : contents_of(&*engines, kept.graph))
      access.moves.insert(access.moves.end(), one.moves.begin(), one.moves.end());
  }
  access.sources_may_change |= !access.beyond.empty() || write_their_sources(*engines, access.moves);
  search_moves(*engines, access.moves, access.beyond, true);
  add_tables_in_place(*engines, access.words_in_place, &access.accesses);
}

// `launch` calls the driver for any executable graph. What one segment writes, copies of a later one may bring.
CUresult launch_in_segments(KeptGraph& kept, StreamHandle stream, bool sources_may_change, CallOf<CUgraphExec> launch,
                            bool* is_done) {
  // An exception must not end a launch of which a part runs already.
  const auto submit_one = [&](CUgraphExec segment) {
    return guarded([&] {
      return with_graph_memory(
          [&](Call call) {
            GraphAccess access = access_of(segment);
            access.sources_may_change |= sources_may_change;
            return submit_graph(stream, access, MayKeep::kNo, call);
          },
          [&] { return launch(segment); });
    });
  };
  const std::optional<CUresult> result = launch_in_segments(kept, stream, submit_one);
  *is_done = result.has_value();
  return result.value_or(CUDA_ERROR_OUT_OF_MEMORY);
}

// A graph that is kept, because it may not fit at once. Where the executable graph's own record says less than the copy
// does (graph_execs.h), what it is launched in parts of is known.
CUresult launch_kept(KeptGraph& kept, StreamHandle stream, GraphAccess& access, Call call, CallOf<CUgraphExec> launch) {
  const bool changes_unseen = any_node_changes_on_the_device();
  const bool is_known_by_copy = !access.is_known && kept.obstacle == nullptr;
  look_ahead(kept, access);
  if (!changes_unseen && (is_known_by_copy || (access.is_known && must_be_cut(kept, access)))) {
    bool is_done = false;
    const CUresult result = launch_in_segments(kept, stream, access.sources_may_change, launch, &is_done);
    if (is_done) return result;
  }
  return launch_as_a_whole(kept, stream, [&] { return submit_graph(stream, access, MayKeep::kYes, call); });
}

CUresult launch_graph(CUgraphExec exec, StreamHandle stream, Call call, CallOf<CUgraphExec> launch) {
  if (engines_now() == nullptr) return call();
  if (is_recording(stream)) return submit(stream, Host::kGoesOn, {}, {.follows = true}, call);
  return guarded([&] {
    // Recorded work has not blocked a stream so far.
    if (any_stream_may_block()) note_streams_may_block();
    GraphAccess access = access_of(exec);
    const std::shared_ptr<KeptGraph> kept = kept_graph(exec);
    if (kept != nullptr) return launch_kept(*kept, stream, access, call, launch);
    return submit_graph(stream, access, MayKeep::kYes, call);
  });
}

}  // namespace

CUresult instantiated_with(CUgraphExec* exec, CUgraph graph, const CUDA_GRAPH_INSTANTIATE_PARAMS* params, Call call) {
  return instantiate(exec, graph, params == nullptr ? 0 : params->flags, call);
}

}  // namespace thermocline

THERMOCLINE_HOOK_PAIR(cuGraphLaunch, _ptsz, (CUgraphExec hGraphExec, CUstream hStream), {
  const auto launch = [&](CUgraphExec exec) { return real<kFunction>(exec, hStream); };
  return with_graph_memory([&](Call call) { return launch_graph(hGraphExec, stream_of(hStream), call, launch); },
                           [&] { return launch(hGraphExec); });
})

#define THERMOCLINE_ADD_NODE_HOOK(name, node_type)                                                                     \
  extern "C" CUresult CUDAAPI name(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,          \
                                   size_t numDependencies, const node_type* nodeParams) {                              \
    using namespace thermocline; /* NOLINT: the scope of one function */                                               \
    return hold(named_by(nodeParams),                                                                                  \
                [&] { return real<Function::name>(phGraphNode, hGraph, dependencies, numDependencies, nodeParams); }); \
  }
#define THERMOCLINE_SET_NODE_HOOK(name, node_type)                                              \
  extern "C" CUresult CUDAAPI name(CUgraphNode hNode, const node_type* nodeParams) {            \
    using namespace thermocline; /* NOLINT: the scope of one function */                        \
    return hold(named_by(nodeParams), [&] { return real<Function::name>(hNode, nodeParams); }); \
  }
// `in_graph`: the function that does the same to a node of a graph.
#define THERMOCLINE_SET_EXEC_NODE_HOOK(name, in_graph, setter, node_type)                                              \
  extern "C" CUresult CUDAAPI name(CUgraphExec hGraphExec, CUgraphNode hNode, const node_type* nodeParams) {           \
    using namespace thermocline; /* NOLINT: the scope of one function */                                               \
    return setter(hGraphExec, hNode, nodeParams,                                                                       \
                  {[&](CUgraphNode node) { return real<Function::in_graph>(node, nodeParams); },                       \
                   [&](CUgraphExec exec, CUgraphNode node) { return real<Function::name>(exec, node, nodeParams); }}); \
  }

THERMOCLINE_SET_EXEC_NODE_HOOK(cuGraphExecKernelNodeSetParams, cuGraphKernelNodeSetParams, set_kernel,
                               CUDA_KERNEL_NODE_PARAMS_v1)
THERMOCLINE_SET_EXEC_NODE_HOOK(cuGraphExecKernelNodeSetParams_v2, cuGraphKernelNodeSetParams_v2, set_kernel,
                               CUDA_KERNEL_NODE_PARAMS)
THERMOCLINE_SET_NODE_HOOK(cuGraphMemcpyNodeSetParams, CUDA_MEMCPY3D)
THERMOCLINE_SET_NODE_HOOK(cuGraphMemsetNodeSetParams, CUDA_MEMSET_NODE_PARAMS)
THERMOCLINE_ADD_NODE_HOOK(cuGraphAddBatchMemOpNode, CUDA_BATCH_MEM_OP_NODE_PARAMS)
THERMOCLINE_SET_NODE_HOOK(cuGraphBatchMemOpNodeSetParams, CUDA_BATCH_MEM_OP_NODE_PARAMS)
THERMOCLINE_SET_EXEC_NODE_HOOK(cuGraphExecBatchMemOpNodeSetParams, cuGraphBatchMemOpNodeSetParams, set_other,
                               CUDA_BATCH_MEM_OP_NODE_PARAMS)

extern "C" CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                                          const CUkernelNodeAttrValue* value) {
  using namespace thermocline;
  if (attr == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE && value != nullptr &&
      value->deviceUpdatableKernelNode.deviceUpdatable != 0)
    nodes_change_on_the_device();
  return real<Function::cuGraphKernelNodeSetAttribute>(hNode, attr, value);
}

extern "C" {

CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                      size_t numDependencies, const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  using namespace thermocline;
  return hold(named_by(copyParams), [&] {
    return real<Function::cuGraphAddMemcpyNode>(phGraphNode, hGraph, dependencies, numDependencies, copyParams, ctx);
  });
}

CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  using namespace thermocline;
  return set_other(hGraphExec, hNode, copyParams,
                   {[&](CUgraphNode node) { return real<Function::cuGraphMemcpyNodeSetParams>(node, copyParams); },
                    [&](CUgraphExec exec, CUgraphNode node) {
                      return real<Function::cuGraphExecMemcpyNodeSetParams>(exec, node, copyParams, ctx);
                    }});
}

CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                      size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS* memsetParams,
                                      CUcontext ctx) {
  using namespace thermocline;
  return hold(named_by(memsetParams), [&] {
    return real<Function::cuGraphAddMemsetNode>(phGraphNode, hGraph, dependencies, numDependencies, memsetParams, ctx);
  });
}

CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx) {
  using namespace thermocline;
  return set_other(hGraphExec, hNode, memsetParams,
                   {[&](CUgraphNode node) { return real<Function::cuGraphMemsetNodeSetParams>(node, memsetParams); },
                    [&](CUgraphExec exec, CUgraphNode node) {
                      return real<Function::cuGraphExecMemsetNodeSetParams>(exec, node, memsetParams, ctx);
                    }});
}

CUresult CUDAAPI cuGraphAddNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                size_t numDependencies, CUgraphNodeParams* nodeParams) {
  using namespace thermocline;
  return add_any(hGraph, phGraphNode, nodeParams, [&] {
    return real<Function::cuGraphAddNode>(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
  });
}

CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                   const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                   CUgraphNodeParams* nodeParams) {
  using namespace thermocline;
  return add_any(hGraph, phGraphNode, nodeParams, [&] {
    return real<Function::cuGraphAddNode_v2>(phGraphNode, hGraph, dependencies, dependencyData, numDependencies,
                                             nodeParams);
  });
}

CUresult CUDAAPI cuGraphAddNode_v3(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                   const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                   CUgraphNodeParams* nodeParams) {
  using namespace thermocline;
  return add_any(hGraph, phGraphNode, nodeParams, [&] {
    return real<Function::cuGraphAddNode_v3>(phGraphNode, hGraph, dependencies, dependencyData, numDependencies,
                                             nodeParams);
  });
}

CUresult CUDAAPI cuGraphNodeSetParams_v2(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  using namespace thermocline;
  return hold(named_by(nodeParams), [&] { return real<Function::cuGraphNodeSetParams_v2>(hNode, nodeParams); });
}

CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  using namespace thermocline;
  return hold(named_by(nodeParams), [&] { return real<Function::cuGraphNodeSetParams>(hNode, nodeParams); });
}

CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  using namespace thermocline;
  return set_any(hGraphExec, hNode, nodeParams,
                 {[&](CUgraphNode node) { return real<Function::cuGraphNodeSetParams>(node, nodeParams); },
                  [&](CUgraphExec exec, CUgraphNode node) {
                    return real<Function::cuGraphExecNodeSetParams>(exec, node, nodeParams);
                  }});
}

CUresult CUDAAPI cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
  using namespace thermocline;
  return set_event(hGraphExec, hNode,
                   {[&](CUgraphNode node) { return real<Function::cuGraphEventRecordNodeSetEvent>(node, event); },
                    [&](CUgraphExec exec, CUgraphNode node) {
                      return real<Function::cuGraphExecEventRecordNodeSetEvent>(exec, node, event);
                    }});
}

CUresult CUDAAPI cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
  using namespace thermocline;
  return set_event(hGraphExec, hNode,
                   {[&](CUgraphNode node) { return real<Function::cuGraphEventWaitNodeSetEvent>(node, event); },
                    [&](CUgraphExec exec, CUgraphNode node) {
                      return real<Function::cuGraphExecEventWaitNodeSetEvent>(exec, node, event);
                    }});
}

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode, char* logBuffer,
                                    size_t bufferSize) {
  using namespace thermocline;
  return instantiate(phGraphExec, hGraph, 0, [&] {
    return real<Function::cuGraphInstantiate>(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
  });
}

CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                                       char* logBuffer, size_t bufferSize) {
  using namespace thermocline;
  return instantiate(phGraphExec, hGraph, 0, [&] {
    return real<Function::cuGraphInstantiate_v2>(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
  });
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph, unsigned long long flags) {
  using namespace thermocline;
  return instantiate(phGraphExec, hGraph, flags,
                     [&] { return real<Function::cuGraphInstantiateWithFlags>(phGraphExec, hGraph, flags); });
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode* hErrorNode_out,
                                   CUgraphExecUpdateResult* updateResult_out) {
  using namespace thermocline;
  return update(hGraphExec, hGraph, [&] {
    return real<Function::cuGraphExecUpdate>(hGraphExec, hGraph, hErrorNode_out, updateResult_out);
  });
}

CUresult CUDAAPI cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo* resultInfo) {
  using namespace thermocline;
  return update(hGraphExec, hGraph,
                [&] { return real<Function::cuGraphExecUpdate_v2>(hGraphExec, hGraph, resultInfo); });
}

CUresult CUDAAPI cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph) {
  using namespace thermocline;
  return set_child(hGraphExec, hNode, childGraph,
                   [&] { return real<Function::cuGraphExecChildGraphNodeSetParams>(hGraphExec, hNode, childGraph); });
}

CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled) {
  using namespace thermocline;
  const CUresult result = real<Function::cuGraphNodeSetEnabled>(hGraphExec, hNode, isEnabled);
  if (result != CUDA_SUCCESS || !is_hooked()) return result;
  kept_node_enabled(hGraphExec, hNode, isEnabled != 0);
  graph_node_enabled(hGraphExec, hNode, isEnabled != 0);
  return result;
}

// Must be forgotten before the driver's call, after which the handle may be reused at once.
CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec hGraphExec) {
  using namespace thermocline;
  if (!is_hooked()) return real<Function::cuGraphExecDestroy>(hGraphExec);
  forget_kept_graph(hGraphExec);
  graph_exec_destroyed(hGraphExec);
  return destroy_device_graph(hGraphExec, [&] { return real<Function::cuGraphExecDestroy>(hGraphExec); });
}

CUresult CUDAAPI cuGraphDestroy(CUgraph hGraph) {
  using namespace thermocline;
  if (is_hooked()) forget_bodies_in(hGraph);
  return real<Function::cuGraphDestroy>(hGraph);
}

CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode hNode) {
  using namespace thermocline;
  if (is_hooked()) forget_bodies_of(hNode);
  return real<Function::cuGraphDestroyNode>(hNode);
}

}  // extern "C"
