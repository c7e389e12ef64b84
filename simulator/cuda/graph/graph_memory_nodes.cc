// SPDX-License-Identifier: Apache-2.0
// Nodes that allocate and free, added by the program or captured.
#include <algorithm>

#include "simulator/cuda/graph/capture.h"
#include "simulator/cuda/graph/graph_memory.h"

namespace simulator::cuda {
namespace {

// The devices that may access it: its own, and those that the program named.
CUresult rights_of(Call& call, const CUDA_MEM_ALLOC_NODE_PARAMS& given, Rights* out) {
  *out = Rights().with(static_cast<DeviceId>(given.poolProps.location.id), Access::kReadWrite);
  for (std::size_t i = 0; i < given.accessDescCount; ++i) {
    const CUmemAccessDesc& one = given.accessDescs[i];
    if (one.location.type != CU_MEM_LOCATION_TYPE_DEVICE || !call.has_device(one.location.id) ||
        one.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return CUDA_ERROR_INVALID_VALUE;
    *out = out->with(static_cast<DeviceId>(one.location.id), Access::kReadWrite);
  }
  return CUDA_SUCCESS;
}

CUresult check(Call& call, const CUDA_MEM_ALLOC_NODE_PARAMS& given) {
  const CUmemPoolProps& properties = given.poolProps;
  if (given.bytesize == 0 || properties.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties.handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
      given.accessDescCount > static_cast<std::size_t>(call.machine().devices()) ||
      (given.accessDescs == nullptr && given.accessDescCount != 0))
    return CUDA_ERROR_INVALID_VALUE;
  if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!call.has_device(properties.location.id)) return CUDA_ERROR_INVALID_VALUE;
  return given.bytesize > call.machine().capacity() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

void enroll(Call& call, const std::shared_ptr<GraphMemory>& memory) {
  State& state = call.state();
  Allocation allocation;
  allocation.bytes = memory->given.bytesize;
  allocation.kind = AllocationKind::kGraph;
  allocation.id = state.next_id++;
  allocation.context = call.context();
  state.allocations[memory->address] = allocation;
  state.graph_memory[memory->address] = memory;
  call.machine().register_buffer(memory->address, memory->given.bytesize, Fresh::kNo);
}

}  // namespace

bool has_memory_node(const CUgraph_st& graph, CUgraphNodeType type, const GraphMemory* memory) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](CUgraphNode node) { return node->type == type && node->memory.get() == memory; });
}

bool has_memory_nodes(const CUgraph_st& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](CUgraphNode node) { return node->memory != nullptr; });
}

CUresult make_allocation_node(Call& call, CUgraph graph, CUDA_MEM_ALLOC_NODE_PARAMS* given, CUgraphNode_st* out) {
  if (graph->is_child) return CUDA_ERROR_NOT_SUPPORTED;
  if (const CUresult result = check(call, *given); result != CUDA_SUCCESS) return result;
  auto memory = std::make_shared<GraphMemory>();
  if (const CUresult result = rights_of(call, *given, &memory->rights); result != CUDA_SUCCESS) return result;
  memory->pages = round_up(given->bytesize, kPageBytes);
  memory->device = static_cast<DeviceId>(given->poolProps.location.id);
  if (const CUresult result = call.machine().keep_addresses(memory->pages, &memory->address); result != CUDA_SUCCESS)
    return result;
  given->dptr = memory->address;
  memory->given = *given;
  memory->access.assign(given->accessDescs, given->accessDescs + given->accessDescCount);
  memory->given.accessDescs = memory->access.empty() ? nullptr : memory->access.data();
  enroll(call, memory);
  out->type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  out->memory = std::move(memory);
  return CUDA_SUCCESS;
}

CUresult make_free_node(Call& call, CUgraph graph, Address at, CUgraphNode_st* out) {
  if (graph->is_child) return CUDA_ERROR_NOT_SUPPORTED;
  GraphMemory* const memory = graph_memory_at(call.state(), at);
  if (memory == nullptr || has_memory_node(*graph, CU_GRAPH_NODE_TYPE_MEM_FREE, memory))
    return CUDA_ERROR_INVALID_VALUE;
  const bool is_owner = has_memory_node(*graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, memory);
  if (is_owner ? memory->is_freed_by_others : memory->is_freed_by_owner) return CUDA_ERROR_INVALID_VALUE;
  (is_owner ? memory->is_freed_by_owner : memory->is_freed_by_others) = true;
  out->type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  out->memory = call.state().graph_memory.at(at);
  return CUDA_SUCCESS;
}

CUresult allocate_captured(Call& call, Captured& stream, Bytes bytes, CUmemoryPool pool, Address* out) {
  if (stream.capture->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  CUDA_MEM_ALLOC_NODE_PARAMS given{};
  given.poolProps = pool->properties;
  given.bytesize = bytes;
  std::vector<CUmemAccessDesc> access;
  for (int device = 0; call.has_device(device); ++device) {
    if (call.machine().heap_access(pool->heap, static_cast<DeviceId>(device)) != Access::kReadWrite) continue;
    access.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  }
  given.accessDescs = access.data();
  given.accessDescCount = access.size();
  CUgraphNode_st node;
  const CUresult result = make_allocation_node(call, stream.capture->graph, &given, &node);
  if (result != CUDA_SUCCESS) return invalidate(*stream.capture, result);
  *out = given.dptr;
  return add_captured(call, stream, std::move(node));
}

CUresult free_captured(Call& call, Captured& stream, Address at) {
  if (stream.capture->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  CUgraphNode_st node;
  const CUresult result = make_free_node(call, stream.capture->graph, at, &node);
  if (result != CUDA_SUCCESS) return invalidate(*stream.capture, result);
  return add_captured(call, stream, std::move(node));
}

}  // namespace simulator::cuda
