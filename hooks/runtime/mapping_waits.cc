// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/mapping_waits.h"

#include <atomic>
#include <optional>

#include "driver/locks.h"
#include "driver/mapping_waits.h"
#include "driver/undisturbed.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/interpose/real_table.h"
#include "hooks/runtime/mechanisms.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {
namespace {

std::atomic<bool> annotates{false};
std::atomic<bool> is_known{false};
std::atomic<WaitingCalls> waiting{WaitingCalls::kNone};

struct Asking {
  Mutex mutex{"whether mapping waits", lock_level::kMappingWaits};
};

// Nothing: it can not be found out here.
std::optional<WaitingCalls> ask() {
  const DriverTable* const table = real_table();
  CUcontext context = nullptr;
  if (table == nullptr || real<Function::cuCtxGetCurrent>(&context) != CUDA_SUCCESS || context == nullptr) return {};
  const Driver driver(*table);
  DeviceFacts facts;
  if (!driver.facts(&facts).ok() || !facts.has_virtual_memory) return {};
  return probe_mapping_in_flight(driver, facts, annotates.load(std::memory_order_relaxed)).waiting;
}

}  // namespace

void annotate_mapping_probe(bool annotate) noexcept { annotates.store(annotate, std::memory_order_relaxed); }

void find_whether_mapping_waits() {
  if (is_known.load(std::memory_order_acquire)) return;
  const Undisturbed undisturbed;
  const Inside inside;
  const WaitsInPlace no_stream_is_blocked_yet;
  const MutexLock one_at_a_time(process_lifetime<Asking>().mutex);
  if (is_known.load(std::memory_order_acquire)) return;
  const std::optional<WaitingCalls> found = ask();
  if (!found.has_value()) return;
  waiting.store(*found, std::memory_order_release);
  if (mapping_waits()) {
    do_without(Mechanism::kMappingInFlight);
    // No engine begins after this.
    Runtime::get().for_each([&](const ActiveEngine& active) { active.engine->mapping_waits(*found); });
  }
  is_known.store(true, std::memory_order_release);
}

bool mapping_waits() noexcept { return waiting.load(std::memory_order_acquire) != WaitingCalls::kNone; }

}  // namespace thermocline
