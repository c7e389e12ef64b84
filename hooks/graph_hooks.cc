// SPDX-License-Identifier: Apache-2.0
// Graphs that are built node by node, and launches of graphs. A node may run at any time after it was made: the buffers
// that it names stay on the device. A launch touches all that graphs were given and that is still alive, so that
// nothing of it is reused too early.
#include <algorithm>
#include <utility>

#include "hooks/graph_memory.h"
#include "hooks/kernels.h"
#include "hooks/macros.h"
#include "hooks/shapes.h"
#include "hooks/uploads.h"
#include "hooks/values.h"

namespace thermocline {
namespace {

constexpr const char* kReason = "a graph was given its address";

// Collects with `add(engines, touches)`, which is false when the node can not be read.
template <class Add>
CUresult hold(Add add, Call call) {
  const EngineSet* const engines = engines_now();
  if (engines == nullptr) return call();
  return guarded([&]() -> CUresult {
    TouchList touches;
    if (!add(*engines, &touches)) {
      THERMOCLINE_LOG_ONCE("the parameters of a graph's kernel can not be read; the node is refused");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    touches.filter([&](DeviceAddress address) { return engines->owner(address) != nullptr; });
    if (touches.empty() && touches.moves().empty()) return call();
    const HeldEngines all;
    if (all.none()) return call();
    remember_recorded(*all, touches);
    remember_moves(&*all, touches);
    AllChanges made(*all, all->all(), touches);
    const CUresult result = keep(touches, kReason, call);
    if (result == CUDA_SUCCESS) made.happened(true);
    return result;
  });
}

// CUDA_KERNEL_NODE_PARAMS of any version. A function in `kern` is a kernel that is not bound to a context.
CUfunction function_of(const CUDA_KERNEL_NODE_PARAMS_v1& node) { return node.func; }
template <class Node>
CUfunction function_of(const Node& node) {
  return node.func != nullptr ? node.func : reinterpret_cast<CUfunction>(node.kern);
}

template <class Node>
CUresult hold_kernel(const Node* node, Call call) {
  return hold(
      [node](const EngineSet& engines, TouchList* touches) {
        return node == nullptr ||
               add_arguments(engines, function_of(*node), {node->kernelParams, node->extra}, touches);
      },
      call);
}

CUresult hold_copy(const CUDA_MEMCPY3D* copy, Call call) {
  return hold(
      [copy](const EngineSet&, TouchList* touches) {
        *touches = shape_of(copy).touches;
        return true;
      },
      call);
}

CUresult hold_set(const CUDA_MEMSET_NODE_PARAMS* set, Call call) {
  return hold(
      [set](const EngineSet&, TouchList* touches) {
        if (set != nullptr) add_set(touches, *set);
        return true;
      },
      call);
}

CUresult hold_values(const CUDA_BATCH_MEM_OP_NODE_PARAMS* values, Call call) {
  return hold(
      [values](const EngineSet&, TouchList* touches) {
        if (values != nullptr) add_value_operations(values->paramArray, values->count, touches);
        return true;
      },
      call);
}

bool add_node(const EngineSet& engines, const CUgraphNodeParams& node, TouchList* touches) {
  switch (node.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return add_arguments(engines, function_of(node.kernel), {node.kernel.kernelParams, node.kernel.extra}, touches);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      *touches = shape_of(&node.memcpy.copyParams).touches;
      return true;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      add_write(touches, node.memset.dst,
                Box{.width = node.memset.width * node.memset.elementSize,
                    .rows = node.memset.height,
                    .pitch = node.memset.pitch});
      return true;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      add_value_operations(node.memOp.paramArray, node.memOp.count, touches);
      return true;
    default:
      return true;
  }
}

CUresult hold_node(const CUgraphNodeParams* node, Call call) {
  if (node != nullptr && node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) graphs_allocate();
  return hold([node](const EngineSet& engines,
                     TouchList* touches) { return node == nullptr || add_node(engines, *node, touches); },
              call);
}

// Whether all that is live can be on its device at once.
bool all_fits(const EngineSet& engines) {
  return std::all_of(engines.begin(), engines.end(), [](const ActiveEngine* active) {
    const EngineStatistics now = active->engine->statistics();
    return now.block_bytes + now.foreign_bytes <= now.budget_bytes;
  });
}

CUresult launch_graph(StreamHandle stream, Call call) {
  if (engines_now() == nullptr) return call();
  if (any_node_changes_on_the_device() && !is_recording(stream)) {
    const auto fits = [] {
      const HeldEngines engines;
      return engines.none() || all_fits(*engines);
    };
    if (fits()) return submit_unknown(stream, call);
    count(Counter::kUnknownLaunches);
    THERMOCLINE_LOG_ONCE("kernels may change what nodes of graphs are given; not all that is live fits beside them");
  }
  return guarded([&] {
    TouchList touches;
    if (const HeldEngines engines; !engines.none()) {
      search_remembered_moves(*engines);
      touches = recorded(*engines);
    }
    return submit(stream, Host::kGoesOn, std::move(touches), {.follows = true, .may_stand = any_waits_for_values()},
                  call);
  });
}

}  // namespace
}  // namespace thermocline

THERMOCLINE_HOOK_PAIR(cuGraphLaunch, _ptsz, (CUgraphExec hGraphExec, CUstream hStream), {
  return with_graph_memory([&](Call call) { return launch_graph(stream_of(hStream), call); },
                           [&] { return real<kFunction>(hGraphExec, hStream); });
})

#define THERMOCLINE_ADD_NODE_HOOK(name, holder, node_type)                                                    \
  extern "C" CUresult CUDAAPI name(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, \
                                   size_t numDependencies, const node_type* nodeParams) {                     \
    using namespace thermocline; /* NOLINT: the scope of one function */                                      \
    return holder(nodeParams, [&] {                                                                           \
      return real<Function::name>(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);            \
    });                                                                                                       \
  }
#define THERMOCLINE_SET_NODE_HOOK(name, holder, node_type)                              \
  extern "C" CUresult CUDAAPI name(CUgraphNode hNode, const node_type* nodeParams) {    \
    using namespace thermocline; /* NOLINT: the scope of one function */                \
    return holder(nodeParams, [&] { return real<Function::name>(hNode, nodeParams); }); \
  }
#define THERMOCLINE_SET_EXEC_NODE_HOOK(name, holder, node_type)                                              \
  extern "C" CUresult CUDAAPI name(CUgraphExec hGraphExec, CUgraphNode hNode, const node_type* nodeParams) { \
    using namespace thermocline; /* NOLINT: the scope of one function */                                     \
    return holder(nodeParams, [&] { return real<Function::name>(hGraphExec, hNode, nodeParams); });          \
  }

THERMOCLINE_ADD_NODE_HOOK(cuGraphAddKernelNode, hold_kernel, CUDA_KERNEL_NODE_PARAMS_v1)
THERMOCLINE_ADD_NODE_HOOK(cuGraphAddKernelNode_v2, hold_kernel, CUDA_KERNEL_NODE_PARAMS)
THERMOCLINE_SET_NODE_HOOK(cuGraphKernelNodeSetParams, hold_kernel, CUDA_KERNEL_NODE_PARAMS_v1)
THERMOCLINE_SET_NODE_HOOK(cuGraphKernelNodeSetParams_v2, hold_kernel, CUDA_KERNEL_NODE_PARAMS)
THERMOCLINE_SET_EXEC_NODE_HOOK(cuGraphExecKernelNodeSetParams, hold_kernel, CUDA_KERNEL_NODE_PARAMS_v1)
THERMOCLINE_SET_EXEC_NODE_HOOK(cuGraphExecKernelNodeSetParams_v2, hold_kernel, CUDA_KERNEL_NODE_PARAMS)
THERMOCLINE_SET_NODE_HOOK(cuGraphMemcpyNodeSetParams, hold_copy, CUDA_MEMCPY3D)
THERMOCLINE_SET_NODE_HOOK(cuGraphMemsetNodeSetParams, hold_set, CUDA_MEMSET_NODE_PARAMS)
THERMOCLINE_ADD_NODE_HOOK(cuGraphAddBatchMemOpNode, hold_values, CUDA_BATCH_MEM_OP_NODE_PARAMS)
THERMOCLINE_SET_NODE_HOOK(cuGraphBatchMemOpNodeSetParams, hold_values, CUDA_BATCH_MEM_OP_NODE_PARAMS)
THERMOCLINE_SET_EXEC_NODE_HOOK(cuGraphExecBatchMemOpNodeSetParams, hold_values, CUDA_BATCH_MEM_OP_NODE_PARAMS)

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
  return hold_copy(copyParams, [&] {
    return real<Function::cuGraphAddMemcpyNode>(phGraphNode, hGraph, dependencies, numDependencies, copyParams, ctx);
  });
}

CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  using namespace thermocline;
  return hold_copy(copyParams,
                   [&] { return real<Function::cuGraphExecMemcpyNodeSetParams>(hGraphExec, hNode, copyParams, ctx); });
}

CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                      size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS* memsetParams,
                                      CUcontext ctx) {
  using namespace thermocline;
  return hold_set(memsetParams, [&] {
    return real<Function::cuGraphAddMemsetNode>(phGraphNode, hGraph, dependencies, numDependencies, memsetParams, ctx);
  });
}

CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx) {
  using namespace thermocline;
  return hold_set(memsetParams,
                  [&] { return real<Function::cuGraphExecMemsetNodeSetParams>(hGraphExec, hNode, memsetParams, ctx); });
}

CUresult CUDAAPI cuGraphAddNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                size_t numDependencies, CUgraphNodeParams* nodeParams) {
  using namespace thermocline;
  return hold_node(nodeParams, [&] {
    return real<Function::cuGraphAddNode>(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
  });
}

CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                   const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                   CUgraphNodeParams* nodeParams) {
  using namespace thermocline;
  return hold_node(nodeParams, [&] {
    return real<Function::cuGraphAddNode_v2>(phGraphNode, hGraph, dependencies, dependencyData, numDependencies,
                                             nodeParams);
  });
}

CUresult CUDAAPI cuGraphAddNode_v3(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                   const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                   CUgraphNodeParams* nodeParams) {
  using namespace thermocline;
  return hold_node(nodeParams, [&] {
    return real<Function::cuGraphAddNode_v3>(phGraphNode, hGraph, dependencies, dependencyData, numDependencies,
                                             nodeParams);
  });
}

CUresult CUDAAPI cuGraphNodeSetParams_v2(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  using namespace thermocline;
  return hold_node(nodeParams, [&] { return real<Function::cuGraphNodeSetParams_v2>(hNode, nodeParams); });
}

CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  using namespace thermocline;
  return hold_node(nodeParams, [&] { return real<Function::cuGraphNodeSetParams>(hNode, nodeParams); });
}

CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  using namespace thermocline;
  return hold_node(nodeParams, [&] { return real<Function::cuGraphExecNodeSetParams>(hGraphExec, hNode, nodeParams); });
}

}  // extern "C"
