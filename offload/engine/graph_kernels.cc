// SPDX-License-Identifier: Apache-2.0
// Pointers that the kernels of a graph store. A probe after the graph would show only what is left of them, not what
// each kernel stored, so none is made. Kernels whose own launches were probed, in the steps before the graph was
// captured, are known. The arguments of any other kernel stay on the device until they are freed: otherwise tables
// would have to be read before every later operation that is given one of the small buffers.
#include <algorithm>
#include <vector>

#include "driver/locks.h"
#include "offload/engine/engine_state.h"

namespace thermocline {
namespace {

constexpr const char* kMayBeStored = "a kernel of a graph may have stored its address";
}  // namespace

bool Engine::State::is_given_a_table(const GraphKernel& kernel) const {
  return std::ranges::any_of(kernel.accesses, [this](const MemoryAccess& access) {
    return References::may_be_given_a_table(heap, access.address);
  });
}

// A kernel that copies words stores pointers only if it is given some. Then its verdict is not relied on.
bool Engine::State::is_known_to_store_none(const GraphKernel& kernel) {
  if (kernel.stores_pointers || references.any_outside() || !looks.writes_none(kernel.name)) return false;
  reachable.clear();
  if (!references.empty()) references.follow(kernel.accesses, &reachable);
  return reachable.empty();
}

bool Engine::State::keep_what_was_given(const GraphKernel& kernel) {
  return std::ranges::all_of(kernel.accesses, [this](const MemoryAccess& access) {
    // The first pin may free the other buffer, if that is cached.
    const MeantBuffers meant = heap.meant_by(access.address);
    std::vector<DeviceAddress> all;
    for (const Buffer* const buffer : {meant.within, meant.behind}) {
      if (buffer != nullptr) all.push_back(buffer->address());
    }
    return std::ranges::all_of(all, [this](DeviceAddress at) { return pin(at, kMayBeStored, true).ok(); });
  });
}

void Engine::State::written_by_graph(std::span<const GraphKernel> kernels) {
  if (looks.any_under_way()) collect_probes(Wait::kNo);
  for (const GraphKernel& kernel : kernels) {
    if (!is_given_a_table(kernel) || is_known_to_store_none(kernel)) continue;
    // If not all of it can stay, the tables are read when they are needed.
    if (!keep_what_was_given(kernel))
      static_cast<void>(references.written_by_kernel(references.given(kernel.accesses)));
  }
}

void Engine::written_by_graph(std::span<const GraphKernel> kernels) {
  const std::lock_guard lock(mutex_);
  if (!state_->looks_at_tables) return;
  state_->note_cache_changes();
  const WaitsInPlace behind_a_launch;
  const HostPool::TrimsInPlace there_too(state_->host);
  state_->written_by_graph(kernels);
  state_->show_references();
}

}  // namespace thermocline
