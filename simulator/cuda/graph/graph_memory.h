// SPDX-License-Identifier: Apache-2.0
// Memory that graphs allocate (CUDA Programming Guide, "Graph Memory Nodes"). An allocation has its addresses from when
// its node is made until neither a graph, nor a launch of one, nor the program can name it. A launch puts memory behind
// them; they may be accessed from when the node has run until the allocation is freed, and are a fault otherwise.
//
// Allocations of one graph whose lifetimes the graph's edges keep apart take turns with the same memory. What no graph
// needs any more stays with the driver for later ones, until cuDeviceGraphMemTrim.
//
// Invariants: what is live has memory behind it; two allocations that do have the same are of one graph.
#pragma once

#include "simulator/cuda/graph/graph.h"

namespace simulator::cuda {

struct GraphBlock {
  PhysicalId physical = 0;
  Bytes bytes = 0;
  DeviceId device = 0;
  OperationId last = 0;  // the newest that opened it to the device, or closed it
};

struct GraphMemory {
  Address address = 0;
  Bytes pages = 0;  // whole ones, in bytes
  CUDA_MEM_ALLOC_NODE_PARAMS given{};
  std::vector<CUmemAccessDesc> access;  // what `given` points at
  DeviceId device = 0;
  Rights rights;                      // while it may be accessed
  std::shared_ptr<GraphBlock> block;  // none: before the first launch, and after a trim
  // In the order of calls: a launch allocated it, and nothing that was submitted since frees it.
  bool is_live = false;
  bool is_freed_by_owner = false;  // the graph that allocates it has a node that frees it
  bool is_freed_by_others = false;
};

// Nodes of these kinds. The address of what is allocated is answered in `given`.
CUresult make_allocation_node(Call& call, CUgraph graph, CUDA_MEM_ALLOC_NODE_PARAMS* given, CUgraphNode_st* out);
CUresult make_free_node(Call& call, CUgraph graph, Address at, CUgraphNode_st* out);
// What a stream that records is asked for; the pool's properties become the allocation's.
CUresult allocate_captured(Call& call, Captured& stream, Bytes bytes, CUmemoryPool pool, Address* out);
CUresult free_captured(Call& call, Captured& stream, Address at);

// Such graphs can not be copied, be children, lose nodes or edges, or be launchable twice.
bool has_memory_nodes(const CUgraph_st& graph);
bool has_memory_node(const CUgraph_st& graph, CUgraphNodeType type, const GraphMemory* memory);

// Memory behind all that the graph allocates.
CUresult back_graph_memory(Call& call, const CUgraph_st& graph);
// What comes before the nodes of a launch; an error where it may not be launched now.
CUresult begin_graph_memory(Call& call, const CUgraphExec_st& graph, StreamId stream);
// The node of a launch, which comes behind `order`. Answers what later ones come behind.
OperationId queue_graph_memory(Machine& machine, StreamId stream, const CUgraphNode_st& node, Machine::Order order);

// An allocation by its first address; null: there is none, or it is no graph's.
GraphMemory* graph_memory_at(State& state, Address at);
// By the program, after a launch: in the stream's order, or at once. Not of what its own graph frees.
CUresult free_graph_memory(Call& call, GraphMemory& memory, StreamId stream);
CUresult free_graph_memory_now(Call& call, GraphMemory& memory);

// Forgets allocations that nobody can name any more. Whatever destroys graphs or frees calls it.
void sweep_graph_memory(Call& call);
void trim_graph_memory(Call& call, DeviceId device);
// The context ends, and no work is pending.
void drop_graph_memory(Call& call, CUcontext context);
// Memory that the device has for graphs; or what of it allocations have behind them.
Bytes graph_bytes(const State& state, DeviceId device, bool used);

}  // namespace simulator::cuda
