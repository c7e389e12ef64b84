// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/mapping_waits.h"

#include <atomic>
#include <cstdint>
#include <optional>

#include "driver/locks.h"
#include "driver/mapping_waits.h"
#include "driver/undisturbed.h"
#include "hooks/interpose/real_table.h"
#include "hooks/runtime/mechanisms.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {
namespace {

// If the probe finds no memory, it is repeated up to this many times.
constexpr int kMostProbes = 3;

enum class State : std::uint8_t { kUnknown, kAsking, kKnown };

std::atomic<bool> annotates{false};
std::atomic<State> state{State::kUnknown};
std::atomic<WaitingCalls> waiting{WaitingCalls::kNone};
std::atomic<int> probes{0};

// No value: it cannot be found out now.
std::optional<WaitingCalls> ask() {
  const DriverTable* const table = real_table();
  CUcontext context = nullptr;
  if (table == nullptr || real<Function::cuCtxGetCurrent>(&context) != CUDA_SUCCESS || context == nullptr) return {};
  const Driver driver(*table);
  DeviceFacts facts;
  if (!driver.facts(&facts).ok()) return {};
  if (!facts.has_virtual_memory) return WaitingCalls::kNone;
  const MappingInFlight found = probe_mapping_in_flight(driver, facts, annotates.load(std::memory_order_relaxed));
  if (found.finding == Finding::kNotTried && probes.fetch_add(1) + 1 < kMostProbes) return {};
  return found.waiting;
}

}  // namespace

void annotate_mapping_probe(bool annotate) noexcept { annotates.store(annotate, std::memory_order_relaxed); }

void find_whether_mapping_waits() {
  State expected = State::kUnknown;
  if (state.load(std::memory_order_acquire) != expected || !state.compare_exchange_strong(expected, State::kAsking))
    return;
  const Undisturbed undisturbed;
  const Inside inside;
  const WaitsInPlace only_for_the_probes_own_stream;
  const std::optional<WaitingCalls> found = ask();
  if (found.has_value()) waiting.store(*found, std::memory_order_release);
  state.store(found.has_value() ? State::kKnown : State::kUnknown, std::memory_order_release);
  if (!mapping_was_found_to_wait()) return;
  mapping_waits_for_streams.store(true, std::memory_order_relaxed);
  do_without(Mechanism::kMappingInFlight);
  // No engine begins after this.
  Runtime::get().for_each([&](const ActiveEngine& active) { active.engine->mapping_waits(*found); });
}

bool mapping_was_found_to_wait() noexcept { return waiting.load(std::memory_order_acquire) != WaitingCalls::kNone; }

}  // namespace thermocline
