// SPDX-License-Identifier: Apache-2.0
// Whether host memory, and the spill file, can hold the memory that has to be evicted.
#include <algorithm>
#include <mutex>

#include "allocator/host_account.h"
#include "allocator/host_ledger.h"
#include "driver/undisturbed.h"
#include "offload/engine/asking.h"
#include "offload/engine/engine_state.h"
#include "offload/residency/host_grant.h"

namespace thermocline {

Bytes Engine::State::host_limit_left() const {
  if (options.host_limit_bytes == 0) return ~Bytes{0};
  if (options.host_account == nullptr) return options.host_limit_bytes;
  return std::min(options.host_limit_bytes, options.host_account->left_for(std::max(host.taken_bytes(), host_claim)));
}

bool Engine::State::others_have_host_memory() const {
  const HostAccount* const account = options.host_account;
  const Bytes own = std::max(host.taken_bytes(), host_claim);
  const bool of_shared = options.host_ledger != nullptr && options.host_ledger->held() > own;
  return of_shared || (account != nullptr && account->left_for(own) < account->limit());
}

bool Engine::State::claim_host(Bytes bytes) {
  if (bytes <= host_claim) return true;
  if (!host.claim(bytes)) return false;
  host_claim = bytes;
  return true;
}

// Whether all live memory may be granted. Claims, with the gaps between copies, what other devices and processes could
// take in the meantime, in whole steps if possible.
bool Engine::State::host_holds(Bytes live, Bytes limit, const Block& block) {
  note_unit_of(block);
  if (live <= limit) return true;
  const bool holds = pinned_host_holds(live) || file_holds(live);
  others_left_too_little.store(!holds && others_have_host_memory(), std::memory_order_relaxed);
  return holds;
}

bool Engine::State::pinned_host_holds(Bytes live) {
  const Bytes own_limit = options.host_limit_bytes == 0 ? ~Bytes{0} : options.host_limit_bytes;
  if (live > granted_under(own_limit, host_mappings.on())) return false;
  if (!shares_host_memory()) return true;
  const Bytes needed = std::min(own_limit, limit_that_grants(live, host_mappings.on()));
  if (needed <= host_claim) return true;
  return claim_host(std::min(own_limit, round_up(needed, kHostStepBytes))) || claim_host(needed);
}

// Claims what copies need for passing through and, of the limit that devices share, as much as live memory can use.
Bytes Engine::State::claim_beside_file(Bytes live, Bytes least) {
  if (options.host_account != nullptr && options.host_ledger == nullptr) {
    const Bytes useful = least + round_up(live + live / 7 + 1, kHostStepBytes);
    static_cast<void>(claim_host(std::min(useful, host_limit_left())));
  }
  static_cast<void>(claim_host(least));
  return host_claim;
}

bool Engine::State::file_holds(Bytes live) {
  FileCopies* const files = migration.files();
  if (files == nullptr) return false;
  const Bytes least = least_host_for_spill(largest_unit);
  Bytes on_host = options.host_limit_bytes == 0 ? ~Bytes{0} : options.host_limit_bytes;
  if (shares_host_memory()) on_host = std::min(on_host, claim_beside_file(live, least));
  const Bytes in_file = needed_in_file(live, on_host, largest_unit);
  return on_host >= least && in_file <= granted_in_file(files->limit(), largest_unit) &&
         files->reserve(file_limit_that_grants(in_file, largest_unit));
}

void Engine::State::lower_host_claim() {
  const bool exceeds = held_block_bytes > budget_bytes - external_bytes;
  const Bytes needed = exceeds ? limit_that_grants(held_block_bytes, host_mappings.on()) : 0;
  if (needed < host_claim && host.claim(needed)) host_claim = needed;
}

bool Engine::State::lower_host_claim_beside_file(Bytes most) {
  FileCopies* const files = migration.files();
  if (files == nullptr || options.host_account == nullptr) return false;
  if (host_claim <= most) return true;
  const Bytes in_file = needed_in_file(held_block_bytes, most, largest_unit);
  if (in_file > granted_in_file(files->limit(), largest_unit)) return false;
  if (!files->reserve(file_limit_that_grants(in_file, largest_unit)) || !host.claim(most)) return false;
  host_claim = most;
  return true;
}

bool Engine::leave_host(std::size_t sharers) {
  const Undisturbed undisturbed;
  std::unique_lock lock(mutex_);
  state_->reclaim();
  const Bytes least = least_host_for_spill(state_->largest_unit);
  const Bytes part = sharers == 0 ? 0 : state_->options.host_limit_bytes / sharers;
  if (!state_->lower_host_claim_beside_file(std::max(part, least))) return false;
  // In portions, so that each is done before waits happen with the lock held (ask_without_waiting).
  for (Bytes live = state_->host.live_bytes(); live > part;) {
    const Bytes most = std::max(part, live - std::min(live, kHostStepBytes));
    if (!ask_without_waiting(lock, [&] { return state_->residency.leave_host(most); }).ok()) break;
    live = std::min(most, state_->host.live_bytes());
  }
  trim_host(lock);
  return true;
}

Bytes Engine::trim_host(std::unique_lock<Mutex>& lock) {
  state_->migration.collect_retired();
  const Bytes given = state_->host.ever_taken_bytes() - state_->host.taken_bytes();
  // The driver may wait for the device. What another thread gives back at the moment counts, too.
  lock.unlock();
  state_->host.trim();
  state_->host.await_leaving();
  lock.lock();
  state_->lower_host_claim();
  return state_->host.ever_taken_bytes() - state_->host.taken_bytes() - given;
}

Bytes Engine::trim_host() {
  const Undisturbed undisturbed;
  std::unique_lock lock(mutex_);
  state_->reclaim();
  state_->residency.drop_spare_copies();
  // Evicted addresses may still lead to copies of what was freed. Those stay if this fails.
  if (state_->host_mappings.on()) static_cast<void>(state_->heap.sweep(Wait::kNo));
  return trim_host(lock);
}

bool Engine::others_left_too_little_host() const noexcept {
  return state_->others_left_too_little.load(std::memory_order_relaxed);
}

}  // namespace thermocline
