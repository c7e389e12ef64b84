// SPDX-License-Identifier: Apache-2.0
// The engine's side of verifying reruns (recompute/verification.h): rehearsals of launches, and digests of contents
// that are dropped and recomputed.
#include <utility>

#include "offload/engine/engine_state.h"

namespace thermocline {

void Engine::State::may_verify() {
  if (options.drops_by_proof) return;
  const bool always = options.safety == Safety::kStrict;
  verification = std::make_unique<Verification>(digests, *versions, *options.relauncher, always);
}

// While everything fits nothing is dropped, so nothing is rehearsed. Nor if nothing could be dropped.
bool Engine::State::begin_rehearsal() {
  if (verification == nullptr || info.relaunch == nullptr || info.again) return false;
  if (!versions->arriving_may_run_again() || residency.has_stopped() || clock.is_recording()) return false;
  return expects_shortage() && verification->begin_rehearsal(info.relaunch->trial);
}

// A rehearsal never exceeds the budget, unlike an operation of the program (soft_limit.cc).
bool Engine::State::fits_with_scratch() const {
  Bytes needed = 0;
  for (const Versions::Operand& operand : versions->arriving())
    needed += operand.use.writes && operand.use.reads ? 2 * operand.bytes : operand.bytes;
  return needed <= budget_bytes;
}

// Runs the arriving operation once in advance. If anything prevents that, the operation runs without a rehearsal.
Status Engine::State::rehearse(const RelaunchInfo& launch, StreamHandle handle) {
  std::vector<DeviceAddress> scratch;
  recomputing = true;
  const Status status = rehearse_in(launch, handle, &scratch);
  recomputing = false;
  operands.clear();
  for (const DeviceAddress at : scratch) release(*heap.find(at));
  if (status.ok()) return {};
  return skip_rehearsal(status.loses_the_context() ? status : Status());
}

Status Engine::State::rehearse_in(const RelaunchInfo& launch, StreamHandle handle,
                                  std::vector<DeviceAddress>* scratch) {
  if (!fits_with_scratch()) return Status::out_of_memory();
  const std::span<const Versions::Operand> known = versions->arriving();
  std::vector<MemoryAccess> list;
  std::vector<DeviceAddress> addresses;
  for (const Versions::Operand& operand : known) {
    DeviceAddress at = operand.address;
    if (operand.use.writes) {
      if (Status status = allocate_scratch(operand.bytes, clock.index_of(handle), &at); !status.ok()) return status;
      scratch->push_back(at);
    }
    if (operand.use.writes && operand.use.reads) {
      if (Status status = copy_by_ourselves(at, operand.address, operand.bytes, handle); !status.ok()) return status;
    }
    addresses.push_back(at);
    list.push_back({at, operand.bytes, operand.use.writes ? Access::kWrite : Access::kRead});
  }
  if (Status status = make_ready(list, handle); !status.ok()) return status;
  if (Status status = options.relauncher->relaunch(launch.id, handle, addresses); !status.ok()) return status;
  was_submitted(handle);
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (!known[i].use.writes) continue;
    BlockState& state = residency.state_of(heap.find(addresses[i])->block());
    UseSet digest;
    if (!verification->rehearsed({addresses[i], known[i].bytes}, state.block->uses, &digest)) break;
    note_digest(state, digest);
  }
  return {};
}

Status Engine::State::copy_by_ourselves(DeviceAddress to, DeviceAddress from, Bytes bytes, StreamHandle handle) {
  const MemoryAccess list[] = {{from, bytes, Access::kRead}, {to, bytes, Access::kWrite}};
  if (Status status = make_ready(list, handle); !status.ok()) return status;
  if (Status status = foundation->driver.copy_on_device(to, from, bytes, handle); !status.ok()) return status;
  was_submitted(handle);
  return {};
}

// Nothing may write there before the digest has been taken.
void Engine::State::note_digest(BlockState& state, const UseSet& digest) {
  state.block->uses.join(digest);
  state.wait_for.join(digest);
}

// The operation that was prepared last has been submitted.
void Engine::State::verify_submission() {
  if (!verification->has_rehearsed()) return;
  for (const Versions::Operand& operand : versions->arriving()) {
    if (!operand.use.writes) continue;
    BlockState& state = residency.state_of(heap.find(operand.address)->block());
    UseSet digest;
    verification->performed({operand.address, operand.bytes}, state.block->uses, &digest);
    note_digest(state, digest);
  }
}

// False: the contents must not be dropped.
bool Engine::State::verify_drop(BlockState& state, const Buffer& buffer) {
  UseSet uses = state.block->uses, digest;
  for (const EvictionUnit& unit : state.units()) uses.join(unit.uses);
  const AddressRange contents{buffer.address(), buffer.requested()};
  if (!verification->dropping(buffer.number(), contents, uses, state.resident(), &digest)) return false;
  note_digest(state, digest);
  return true;
}

void Engine::State::verify_made_again(const Buffer& buffer) {
  BlockState& state = residency.state_of(buffer.block());
  UseSet digest;
  verification->made_again(buffer.number(), {buffer.address(), buffer.requested()}, state.block->uses, &digest);
  note_digest(state, digest);
}

}  // namespace thermocline
