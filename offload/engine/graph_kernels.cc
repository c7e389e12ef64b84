// SPDX-License-Identifier: Apache-2.0
// Pointers that the kernels of a graph store. A probe behind the graph would see what is left of them, not what each kernel
// stored, so none is made. Kernels whose own launches were probed, in the steps before the graph was captured, are known.
// What any other is given, or could reach, stays on the device until it is freed: else tables would have to be read before
// every later operation that is given one of the small buffers.
#include <algorithm>
#include <vector>

#include "driver/locks.h"
#include "offload/engine/engine_state.h"

namespace thermocline {
namespace {

constexpr const char* kMayBeStored = "a kernel of a graph may have stored its address";

// Of the budget: what operations need at once has to have room, too.
constexpr Bytes kPartKept = 4;

// Tables of tables that kernels of one graph copy from each other.
constexpr int kMostPasses = 16;

}  // namespace

bool Engine::State::is_given_a_table(const GraphKernel& kernel) const {
  return std::ranges::any_of(kernel.accesses, [this](const MemoryAccess& access) {
    const Buffer* const buffer = heap.find(access.address);
    return buffer != nullptr && buffer->requested() <= References::kMostTableBytes;
  });
}

// A kernel that copies words stores pointers only where it is given some, and then no verdict is relied on.
bool Engine::State::is_known_to_store_none(const GraphKernel& kernel) {
  if (kernel.stores_pointers || references.any_outside() || !looks.writes_none(kernel.name)) return false;
  reachable.clear();
  if (!references.empty()) references.follow(kernel.accesses, &reachable);
  return reachable.empty();
}

// What was given, and what could be reached from there.
bool Engine::State::keep_what_was_given(const GraphKernel& kernel) {
  reachable.clear();
  if (!references.empty() && references.follow(kernel.accesses, &reachable).anywhere) return false;
  std::vector<DeviceAddress> all = reachable;
  for (const MemoryAccess& access : kernel.accesses) all.push_back(access.address);
  return std::ranges::all_of(all, [this](DeviceAddress address) {
    const Buffer* const buffer = heap.find(address);
    if (buffer == nullptr) return true;
    const Bytes more = residency.pins_of(buffer->block()) > 0 ? 0 : buffer->block().bytes();
    const bool has_room = more == 0 || (pinned_block_bytes + more) * kPartKept <= budget_bytes - external_bytes;
    return has_room && pin(address, kMayBeStored, true).ok();
  });
}

void Engine::State::written_by_graph(std::span<const GraphKernel> kernels) {
  if (looks.any_under_way()) settle_looks(Wait::kNo);
  std::vector<const GraphKernel*> in_doubt, others;
  for (const GraphKernel& kernel : kernels) {
    if (is_given_a_table(kernel)) (is_known_to_store_none(kernel) ? others : in_doubt).push_back(&kernel);
  }
  bool all_stay = true;
  for (const GraphKernel* const kernel : in_doubt) all_stay &= keep_what_was_given(*kernel);
  if (all_stay) return;
  // What can not stay is found by reading the tables when it matters. Kernels that store no pointers of their own may
  // have copied those, in any order.
  in_doubt.insert(in_doubt.end(), others.begin(), others.end());
  std::uint64_t before = 0;
  for (int pass = 0; pass < kMostPasses && (pass == 0 || references.runs() != before); ++pass) {
    before = references.runs();
    for (const GraphKernel* const kernel : in_doubt)
      static_cast<void>(references.written_by_kernel(references.given(kernel->accesses)));
  }
}

void Engine::written_by_graph(std::span<const GraphKernel> kernels) {
  const std::lock_guard lock(mutex_);
  if (!state_->looks_at_tables) return;
  state_->hear();
  const WaitsInPlace behind_a_launch;
  const HostPool::TrimsInPlace there_too(state_->host);
  state_->written_by_graph(kernels);
  state_->show_references();
}

}  // namespace thermocline
