// SPDX-License-Identifier: Apache-2.0
#include "hooks/entry/lease_thread.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "driver/locks.h"
#include "hooks/entry/own_threads.h"
#include "hooks/entry/visit_engines.h"
#include "hooks/interpose/log.h"
#include "hooks/runtime/device_lease.h"
#include "offload/planning/background.h"

namespace thermocline {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{10};
// Memory is given back in such steps: others can use each step at once, and the program goes on in between.
constexpr Bytes kStep = 256 * kMiB;

Bytes looked(const ActiveEngine& active, DeviceLease& lease, Bytes* budget) {
  const auto use = active.engine->try_budget_use();
  *budget = use.has_value() ? use->budget : lease.budget();
  return use.has_value() ? lease.look(*use) : lease.look_while_busy();
}

void look_after(const ActiveEngine& active, DeviceLease& lease) {
  if (!lease.is_there()) {
    THERMOCLINE_LOG_ONCE(LogLevel::kWarning,
                         "the ledger of a shared device has been removed or closed; the budget stays as it is");
    return;
  }
  Bytes budget = 0;
  Bytes before = ~Bytes{0};
  // Memory that cannot be evicted stays, and is requested again at the next look.
  for (Bytes next = looked(active, lease, &budget); next != budget && budget < before && !process_ends().load();
       next = looked(active, lease, &budget)) {
    if (next > budget) return active.engine->raise_budget();
    before = budget;
    const Bytes step = budget - std::min(budget, kStep);
    if (!active.engine->lower_budget(std::max(next, step)).ok()) return;
  }
}

void go_on_looking() {
  for (;;) {
    std::this_thread::sleep_for(kBetweenLooks);
    const OwnThreadTurn turn;
    const WaitsInPlace alone;
    if (process_ends().load()) return;
    visit_engines([](const ActiveEngine& active) {
      if (DeviceLease* const lease = lease_of(active.device)) look_after(active, *lease);
    });
  }
}

}  // namespace

void look_after_leases() {
  static std::atomic<bool> tried{false};
  if (tried.exchange(true) || !end_own_threads_with_process()) return;
  std::thread thread = try_in_background(&go_on_looking);
  if (!thread.joinable()) return;
  pthread_setname_np(thread.native_handle(), "thermocline-share");
  thread.detach();
}

}  // namespace thermocline
