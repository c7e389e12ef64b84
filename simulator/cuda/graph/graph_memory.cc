// SPDX-License-Identifier: Apache-2.0
#include "simulator/cuda/graph/graph_memory.h"

#include <algorithm>
#include <unordered_set>

#include "simulator/cuda/graph/capture.h"
#include "simulator/cuda/memory/pool_cache.h"

namespace simulator::cuda {
namespace {

bool allocates(const CUgraphNode_st& node) { return node.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC; }
bool frees(const CUgraphNode_st& node) { return node.type == CU_GRAPH_NODE_TYPE_MEM_FREE; }

void take_from_behind(Machine& machine, GraphMemory& memory) {
  if (memory.block == nullptr) return;
  machine.displace(memory.address, memory.pages);
  memory.block.reset();
}

bool is_idle(Machine& machine, const GraphMemory& memory) {
  return !memory.is_live && (memory.block == nullptr || machine.is_done(memory.block->last));
}

bool is_free(const std::shared_ptr<GraphBlock>& block) { return block.use_count() == 1; }

void give_back_free_blocks(Call& call, DeviceId device) {
  std::erase_if(call.state().graph_blocks, [&](const std::shared_ptr<GraphBlock>& block) {
    if (block->device != device || !is_free(block) || !call.machine().is_done(block->last)) return false;
    call.machine().release_physical(block->physical);
    return true;
  });
}

CUresult take_block(Call& call, Bytes bytes, DeviceId device, std::shared_ptr<GraphBlock>* out) {
  State& state = call.state();
  for (const auto& block : state.graph_blocks) {
    if (block->bytes != bytes || block->device != device || !is_free(block) || !call.machine().is_done(block->last))
      continue;
    *out = block;
    return CUDA_SUCCESS;
  }
  GraphBlock made{.bytes = bytes, .device = device};
  const auto create = [&] {
    return call.machine().create_physical(bytes, &made.physical, PhysicalPlace::kDevice, device);
  };
  CUresult result = with_room(call, create);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    give_back_free_blocks(call, device);
    result = create();
  }
  if (result != CUDA_SUCCESS) return result;
  state.graph_blocks.push_back(std::make_shared<GraphBlock>(made));
  *out = state.graph_blocks.back();
  return CUDA_SUCCESS;
}

bool comes_behind(CUgraphNode node, CUgraphNode earlier) {
  std::unordered_set<CUgraphNode> seen;
  std::vector<CUgraphNode> look_at{node};
  while (!look_at.empty()) {
    CUgraphNode at = look_at.back();
    look_at.pop_back();
    if (at == earlier) return true;
    if (seen.insert(at).second) look_at.insert(look_at.end(), at->after.begin(), at->after.end());
  }
  return false;
}

// Reuses the memory of an allocation that, according to the graph's edges, is freed before the node runs.
std::shared_ptr<GraphBlock> take_from_earlier(CUgraphNode node, std::vector<CUgraphNode>* freeing) {
  const GraphMemory& memory = *node->memory;
  const auto fits = [&](CUgraphNode earlier) {
    const std::shared_ptr<GraphBlock>& block = earlier->memory->block;
    if (memory.block != nullptr) return block == memory.block;
    return block->bytes == memory.pages && block->device == memory.device && comes_behind(node, earlier);
  };
  const auto found = std::find_if(freeing->begin(), freeing->end(), fits);
  if (found == freeing->end()) return nullptr;
  std::shared_ptr<GraphBlock> block = (*found)->memory->block;
  freeing->erase(found);
  return block;
}

void note_peaks(Call& call, DeviceId device) {
  State::OfDevice& of = call.state().devices[device];
  of.graph_used_peak = std::max(of.graph_used_peak, graph_bytes(call.state(), device, true));
  of.graph_reserved_peak = std::max(of.graph_reserved_peak, graph_bytes(call.state(), device, false));
}

}  // namespace

Bytes graph_bytes(const State& state, DeviceId device, bool used) {
  Bytes bytes = 0;
  for (const auto& block : state.graph_blocks) {
    if (block->device == device && !(used && is_free(block))) bytes += block->bytes;
  }
  return bytes;
}

CUresult back_graph_memory(Call& call, const CUgraph_st& graph) {
  std::vector<CUgraphNode> freeing;  // nodes whose memory has not been reused
  for (CUgraphNode node : in_order(graph)) {
    if (frees(*node) && has_memory_node(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, node->memory.get()))
      freeing.push_back(node);
    if (!allocates(*node)) continue;
    GraphMemory& memory = *node->memory;
    std::shared_ptr<GraphBlock> block = take_from_earlier(node, &freeing);
    if (memory.block != nullptr) continue;
    if (block == nullptr) {
      const CUresult result = take_block(call, memory.pages, memory.device, &block);
      if (result != CUDA_SUCCESS) return result;
    }
    call.machine().place(memory.address, memory.pages, block->physical);
    memory.block = std::move(block);
    note_peaks(call, memory.device);
  }
  return CUDA_SUCCESS;
}

CUresult begin_graph_memory(Call& call, const CUgraphExec_st& graph, StreamId stream) {
  const std::vector<CUgraphNode>& nodes = graph.graph->nodes;
  const bool frees_on_launch = (graph.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  for (CUgraphNode node : nodes) {
    if (allocates(*node) && node->memory->is_live && !frees_on_launch) return CUDA_ERROR_INVALID_VALUE;
    if (frees(*node) && !node->memory->is_live && !node->memory->is_freed_by_owner) return CUDA_ERROR_INVALID_VALUE;
  }
  for (CUgraphNode node : nodes) {
    if (!allocates(*node) || !node->memory->is_live) continue;
    if (const CUresult result = free_graph_memory(call, *node->memory, stream); result != CUDA_SUCCESS) return result;
  }
  return back_graph_memory(call, *graph.graph);
}

OperationId queue_graph_memory(Machine& machine, StreamId stream, const CUgraphNode_st& node, Machine::Order order) {
  GraphMemory& memory = *node.memory;
  memory.is_live = allocates(node);
  const Address at = memory.address;
  const Bytes bytes = memory.pages;
  // The driver makes sure that former users of the memory are done.
  std::vector<OperationId> after(order.after.begin(), order.after.end());
  if (memory.is_live) after.push_back(memory.block->last);
  order.after = after;
  const OperationId lifetime = machine.submit(stream, Lifetime{at, bytes, memory.is_live}, order);
  order.after = {&lifetime, 1};
  Internal change;
  if (memory.is_live) {
    change.function = [&machine, at, bytes, rights = memory.rights] { machine.open(at, bytes, rights); };
  } else {
    change.function = [&machine, at, bytes] { machine.close(at, bytes); };
  }
  memory.block->last = machine.submit(stream, std::move(change), order);
  return memory.block->last;
}

GraphMemory* graph_memory_at(State& state, Address at) {
  const auto found = state.graph_memory.find(at);
  return found == state.graph_memory.end() ? nullptr : found->second.get();
}

CUresult free_graph_memory(Call& call, GraphMemory& memory, StreamId stream) {
  if (!memory.is_live || memory.is_freed_by_owner) return CUDA_ERROR_INVALID_VALUE;
  memory.is_live = false;
  Machine* machine = &call.machine();
  machine->submit(stream, Lifetime{memory.address, memory.pages, false});
  memory.block->last = machine->submit(
      stream, Internal{[machine, at = memory.address, bytes = memory.pages] { machine->close(at, bytes); }});
  sweep_graph_memory(call);
  return CUDA_SUCCESS;
}

CUresult free_graph_memory_now(Call& call, GraphMemory& memory) {
  if (!memory.is_live || memory.is_freed_by_owner) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = may_disturb(call); result != CUDA_SUCCESS) return result;
  const CUresult fault = call.machine().wait_to_free("cuMemFree", memory.address, memory.pages, false);
  memory.is_live = false;
  call.machine().close(memory.address, memory.pages);
  sweep_graph_memory(call);
  return fault;
}

void sweep_graph_memory(Call& call) {
  State& state = call.state();
  std::erase_if(state.graph_memory, [&](auto& entry) {
    GraphMemory& memory = *entry.second;
    if (entry.second.use_count() > 1 || !is_idle(call.machine(), memory)) return false;
    take_from_behind(call.machine(), memory);
    call.machine().unregister_buffer(memory.address);
    call.machine().give_addresses(memory.address, memory.pages);
    state.allocations.erase(memory.address);
    return true;
  });
}

void trim_graph_memory(Call& call, DeviceId device) {
  sweep_graph_memory(call);
  for (auto& [at, memory] : call.state().graph_memory) {
    if (memory->device == device && is_idle(call.machine(), *memory)) take_from_behind(call.machine(), *memory);
  }
  give_back_free_blocks(call, device);
}

void drop_graph_memory(Call& call, CUcontext context) {
  for (auto& [at, memory] : call.state().graph_memory) {
    if (call.state().allocations[at].context == context) memory->is_live = false;
  }
  trim_graph_memory(call, context->device);
}

}  // namespace simulator::cuda
