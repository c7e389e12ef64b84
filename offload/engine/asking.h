// SPDX-License-Identifier: Apache-2.0
// Engine::ask_without_waiting: waits happen with the engine's lock free, and then the request is made again.
#pragma once

#include <memory>
#include <mutex>

#include "driver/locks.h"
#include "offload/engine/engine_state.h"

namespace thermocline {

// Each attempt waits for one eviction unit to be evicted, and then finds it gone. Others may take the room while the
// lock is free: after this many attempts the lock is kept, so that every operation comes to an end. A single thread
// needs as many attempts as units are evicted (20 at most in 1,000 random programs; 64 make 2 GiB of room).
inline constexpr int kMostAttempts = 256;

template <class Ask>
Status Engine::ask_without_waiting(std::unique_lock<Mutex>& lock, Ask ask) {
  if (!state_->options.waits_without_lock) return ask();
  StreamClock& clock = state_->clock;
  HostPool& host = state_->host;
  int in_vain = 0;
  for (int attempt = 0; attempt < kMostAttempts && in_vain < 2; ++attempt) {
    Status status;
    {
      const StreamClock::Deferring waits(clock, true);
      host.forget_refusals();
      static_cast<void>(state_->migration.take_awaited());
      status = ask();
    }
    if (status != Status::not_ready()) [[likely]]
      return status;
    if (!clock.has_deferred()) {
      if (const auto transfer = state_->migration.take_awaited(); transfer != nullptr) {
        wait_for_file(lock, transfer);
        continue;
      }
      // The driver may wait for the whole device before freeing pinned memory: for ever, if the program must act first.
      if (!host.wants_trim() || clock.any_blocked()) return status;
      lock.unlock();
      in_vain = host.make_way() ? 0 : in_vain + 1;
      lock.lock();
      continue;
    }
    const EventHandle event = clock.reference_deferred();
    lock.unlock();
    status = state_->foundation->driver.synchronize(event);
    lock.lock();
    clock.release_reference(event);
    if (!status.ok()) return status;
  }
  const WaitsInPlace at_last;
  const HostPool::TrimsInPlace there_too(host);
  return ask();
}

}  // namespace thermocline
