// SPDX-License-Identifier: Apache-2.0
// Pointers that the kernels of a graph store. Behind a launch only what is left of them is seen, and the kernels run in an
// order that is not known here. So all kernels that may have stored any count as one, which was given what each of them
// was given, and a pointer probe behind the launch tells whether this graph leaves pointers behind. Kernels whose own
// launches were probed, in the steps before the graph was captured, are left out.
//
// Where no probe can be made, all of it stays on the device until it is freed: else tables would have to be read before
// every later operation that is given one of the small buffers.
#include <algorithm>
#include <vector>

#include "driver/locks.h"
#include "offload/engine/engine_state.h"

namespace thermocline {
namespace {

constexpr const char* kMayBeStored = "a kernel of a graph may have stored its address";

// Odd, as the kinds of kernels are; the multiplier is 2^64 divided by the golden ratio, so that numbers lie far apart.
std::uint64_t kind_of_graph(std::uint64_t number) { return (number * 0x9E3779B97F4A7C15u) | 1; }

}  // namespace

Buffer* Engine::State::table_at(DeviceAddress address) {
  Buffer* const buffer = heap.find(address);
  return buffer != nullptr && buffer->requested() <= References::kMostTableBytes ? buffer : nullptr;
}

bool Engine::State::is_known_to_store_none(const LaunchedGraph::Kernel& kernel) {
  if (kernel.stores_pointers) return false;
  reachable.clear();
  if (!references.empty()) references.follow(kernel.accesses, &reachable);
  return looks.writes_none(kernel.name, !reachable.empty());
}

// What was given, and what could be reached from there.
bool Engine::State::keep_on_device(std::span<const MemoryAccess> list) {
  reachable.clear();
  if (!references.empty() && references.follow(list, &reachable).anywhere) return false;
  std::vector<DeviceAddress> all = reachable;
  for (const MemoryAccess& access : list) all.push_back(access.address);
  return std::ranges::all_of(all, [this](DeviceAddress address) {
    return heap.find(address) == nullptr || pin(address, kMayBeStored, true).ok();
  });
}

void Engine::State::keep_what_was_given(const LaunchedGraph::Kernel& kernel) {
  if (!keep_on_device(kernel.accesses))
    // The tables are read when it matters.
    static_cast<void>(references.written_by_kernel(references.given(kernel.accesses)));
}

void Engine::State::written_by_graph(StreamHandle handle, const LaunchedGraph& graph) {
  std::vector<const LaunchedGraph::Kernel*> in_doubt;
  std::vector<MemoryAccess> all;
  for (const LaunchedGraph::Kernel& kernel : graph.kernels) {
    const auto is_table = [this](const MemoryAccess& access) { return table_at(access.address) != nullptr; };
    if (std::ranges::none_of(kernel.accesses, is_table) || is_known_to_store_none(kernel)) continue;
    if (kernel.stores_pointers) {
      keep_what_was_given(kernel);
      continue;
    }
    in_doubt.push_back(&kernel);
    all.insert(all.end(), kernel.accesses.begin(), kernel.accesses.end());
  }
  if (in_doubt.empty() || (graph.may_be_probed && probe(handle, graph.number, all))) return;
  for (const LaunchedGraph::Kernel* const kernel : in_doubt) keep_what_was_given(*kernel);
}

// False: no probe can be made. Between the launch and this the lock was open: what was there may have left, or returned.
bool Engine::State::probe(StreamHandle handle, std::uint64_t graph, std::span<const MemoryAccess> all) {
  std::vector<Block*> blocks;
  for (const MemoryAccess& access : all) {
    if (Buffer* const table = table_at(access.address); table != nullptr) blocks.push_back(&table->block());
  }
  const auto is_there = [](const Block* block) { return block->mapped(); };
  if (!looks.may_look_at(all) || !std::ranges::all_of(blocks, is_there)) return false;
  reachable.clear();
  references.follow(all, &reachable);
  looks.arriving({.kind = kind_of_graph(graph), .follows = true}, all, !reachable.empty());
  if (!looks.has_arrived()) return true;
  const StreamIndex index = clock.index_of(handle);
  for (const Block* const block : blocks) {
    if (clock.wait_all(index, residency.state_of(*block).wait_for).ok()) continue;
    looks.abandoned();
    return false;
  }
  const std::uint64_t before = looks.looks();
  looks.submitted(index);
  if (looks.looks() == before) return true;
  const Use use{index, clock.advance(index)};
  for (Block* const block : blocks) block->uses.add(use);
  return true;
}

void Engine::written_by_graph(StreamHandle stream, const LaunchedGraph& graph) {
  const std::lock_guard lock(mutex_);
  if (!state_->looks_at_tables) return;
  state_->hear();
  const WaitsInPlace behind_a_launch;
  const HostPool::TrimsInPlace there_too(state_->host);
  state_->written_by_graph(stream, graph);
  state_->show_references();
}

}  // namespace thermocline
