// SPDX-License-Identifier: Apache-2.0
// Pointers that the kernels of a graph store. A probe after the graph would show only what is left of them, not what
// each kernel stored, so none is made. Kernels whose own launches were probed, in the steps before the graph was
// captured, are known. The arguments of any other kernel stay on the device until they are freed: otherwise tables
// would have to be read before every later operation that is given one of the small buffers. They take at most half of
// the budget so, without what is pinned for other reasons. A graph that is launched in parts pins nothing more, since
// later parts need the room. Beyond that the addresses count as stored, and tables are read.
#include <algorithm>
#include <vector>

#include "driver/locks.h"
#include "offload/engine/engine_state.h"

namespace thermocline {
namespace {

constexpr const char* kMayBeStored = "a kernel of a graph may have stored its address";
// One part in this many of the budget, at most, is pinned so that tables need not be read.
constexpr Bytes kShareKept = 2;
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
  // The first pin may free other buffers, if these are cached.
  std::vector<DeviceAddress> all;
  std::unordered_set<const Block*> blocks;
  Bytes kept = 0, more = 0;
  for (const auto& [buffer, pin] : pinned) {
    if (pin.reason == kMayBeStored) kept += buffer->block().bytes();
  }
  for (const MemoryAccess& access : kernel.accesses) {
    const MeantBuffers meant = heap.meant_by(access.address);
    for (const Buffer* const buffer : {meant.within, meant.behind}) {
      if (buffer == nullptr) continue;
      all.push_back(buffer->address());
      const bool is_new = blocks.insert(&buffer->block()).second && residency.pins_of(buffer->block()) == 0;
      more += is_new ? buffer->block().bytes() : 0;
    }
  }
  // Memory that is pinned for other reasons is no room to share.
  const Bytes taken = pinned_block_bytes + external_bytes, others = taken - std::min(taken, kept);
  const Bytes share = (budget_bytes - std::min(budget_bytes, others)) / kShareKept;
  if (more > 0 && kept + more > share) return false;
  return std::ranges::all_of(all, [this](DeviceAddress at) { return pin(at, kMayBeStored, true).ok(); });
}

void Engine::State::written_by_graph(std::span<const GraphKernel> kernels, bool may_keep) {
  if (looks.any_under_way()) collect_probes(Wait::kNo);
  for (const GraphKernel& kernel : kernels) {
    if (!is_given_a_table(kernel) || is_known_to_store_none(kernel)) continue;
    if (!may_keep || !keep_what_was_given(kernel))
      static_cast<void>(references.written_by_kernel(references.given(kernel.accesses)));
  }
}

bool Engine::written_by_graph(std::span<const GraphKernel> kernels, bool may_keep) {
  const std::lock_guard lock(mutex_);
  if (!state_->looks_at_tables) return false;
  state_->note_cache_changes();
  const WaitsInPlace behind_a_launch;
  const HostPool::TrimsInPlace there_too(state_->host);
  const std::uint64_t before = state_->references.additions();
  state_->written_by_graph(kernels, may_keep);
  state_->show_references();
  return state_->references.additions() != before;
}

bool Engine::may_be_stored_in(AddressRange range) {
  const std::lock_guard lock(mutex_);
  state_->note_cache_changes();
  return state_->references.may_be_stored_in(range);
}

}  // namespace thermocline
