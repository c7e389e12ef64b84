// SPDX-License-Identifier: Apache-2.0
// Memory that graphs allocate (CUDA Programming Guide, "Graph Memory Nodes"). An allocation has its addresses from the
// creation of its node until no graph, no launch and not the program can name it any more. A launch maps memory there,
// which may be accessed after the node has run and until the allocation is freed; any other access is a fault.
//
// Allocations of one graph whose lifetimes are kept apart by the graph's edges share the same memory. Memory that no
// graph needs any more stays with the driver for later graphs, until cuDeviceGraphMemTrim.
//
// Invariants: live allocations have memory mapped; allocations that share memory belong to one graph.
#pragma once

#include "simulator/cuda/graph/graph.h"

namespace simulator::cuda {

struct GraphBlock {
  PhysicalId physical = 0;
  Bytes bytes = 0;
  DeviceId device = 0;
  OperationId last = 0;  // the newest operation that opened or closed it to the device
};

struct GraphMemory {
  Address address = 0;
  Bytes pages = 0;  // size in whole pages
  CUDA_MEM_ALLOC_NODE_PARAMS given{};
  std::vector<CUmemAccessDesc> access;  // to which `given` points
  DeviceId device = 0;
  Rights rights;                      // while it may be accessed
  std::shared_ptr<GraphBlock> block;  // none: before the first launch, and after a trim
  // In the order of calls: a launch has allocated it, and nothing submitted since frees it.
  bool is_live = false;
  bool is_freed_by_owner = false;  // the graph that allocates it also has a node that frees it
  bool is_freed_by_others = false;
};

// Make nodes of these kinds. The address of the allocation is returned in `given`.
CUresult make_allocation_node(Call& call, CUgraph graph, CUDA_MEM_ALLOC_NODE_PARAMS* given, CUgraphNode_st* out);
CUresult make_free_node(Call& call, CUgraph graph, Address at, CUgraphNode_st* out);
// For an allocation in a capturing stream; the pool's properties become the allocation's.
CUresult allocate_captured(Call& call, Captured& stream, Bytes bytes, CUmemoryPool pool, Address* out);
CUresult free_captured(Call& call, Captured& stream, Address at);

// Graphs with such nodes can not be copied, be child graphs, lose nodes or edges, or be instantiated twice.
bool has_memory_nodes(const CUgraph_st& graph);
bool has_memory_node(const CUgraph_st& graph, CUgraphNodeType type, const GraphMemory* memory);

// Maps memory for everything that the graph allocates.
CUresult back_graph_memory(Call& call, const CUgraph_st& graph);
// Queues what precedes the nodes of a launch; an error if the graph may not be launched now.
CUresult begin_graph_memory(Call& call, const CUgraphExec_st& graph, StreamId stream);
// Queues the node of a launch, ordered after `order`. Returns what later nodes are ordered after.
OperationId queue_graph_memory(Machine& machine, StreamId stream, const CUgraphNode_st& node, Machine::Order order);

// An allocation by its first address; null: none, or not a graph's.
GraphMemory* graph_memory_at(State& state, Address at);
// Freed by the program, after a launch: in stream order, or at once. Not for memory that its own graph frees.
CUresult free_graph_memory(Call& call, GraphMemory& memory, StreamId stream);
CUresult free_graph_memory_now(Call& call, GraphMemory& memory);

// Removes allocations that can not be named any more. Must be called after graphs are destroyed or memory is freed.
void sweep_graph_memory(Call& call);
void trim_graph_memory(Call& call, DeviceId device);
// The context ends, and no work is pending.
void drop_graph_memory(Call& call, CUcontext context);
// Memory that the device holds for graphs; or, with `used`, the part of it that is mapped at allocations.
Bytes graph_bytes(const State& state, DeviceId device, bool used);

}  // namespace simulator::cuda
