// SPDX-License-Identifier: Apache-2.0
// Implements include/thermocline/thermocline.h.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "hooks/capture/capture_state.h"
#include "hooks/diagnostics/recorder.h"
#include "hooks/entry/sleep_orders.h"
#include "hooks/runtime/guarded.h"
#include "hooks/runtime/refusals.h"
#include "hooks/runtime/tags.h"
#include "hooks/submit/heap_memory.h"
#include "hooks/submit/submit.h"
#include "include/thermocline/thermocline.h"
#include "telemetry/statistic_names.h"

#define THERMOCLINE_EXPORT extern "C" __attribute__((visibility("default")))

namespace thermocline {
namespace {

// The first version of the structure ended with out_of_memory.
constexpr std::size_t kFirstStatisticsBytes =
    offsetof(thermocline_statistics, out_of_memory) + sizeof(thermocline_statistics::out_of_memory);

thermocline_result result_of(CUresult result) { return static_cast<thermocline_result>(result); }

// Runs `body(engine)` with the engine's context current.
template <class Body>
CUresult with_engine(const ActiveEngine& active, Body body) {
  const CurrentContext context(active);
  const Inside inside;
  const CaptureTruce truce;
  return body(*active.engine);
}

// Runs `body` for the engine that owns the address. An address that no engine owns is an invalid value.
template <class Body>
thermocline_result with_owner(std::uint64_t device_address, Body body) {
  if (engines_now() == nullptr) return THERMOCLINE_NOT_ACTIVE;
  if (Runtime::get().broken()) return result_of(CUDA_ERROR_UNKNOWN);
  const ActiveEngine* const active = owner_now(DeviceAddress{device_address});
  if (active == nullptr) return THERMOCLINE_INVALID_VALUE;
  return result_of(guarded([&] { return with_engine(*active, body); }));
}

// Runs `body` for every engine; returns the first error.
template <class Body>
thermocline_result with_each(Body body) {
  if (engines_now() == nullptr) return THERMOCLINE_NOT_ACTIVE;
  if (Runtime::get().broken()) return result_of(CUDA_ERROR_UNKNOWN);
  return result_of(guarded([&] {
    CUresult first = CUDA_SUCCESS;
    Runtime::get().for_each([&](const ActiveEngine& active) {
      const CUresult result = with_engine(active, body);
      if (first == CUDA_SUCCESS) first = result;
    });
    return first;
  }));
}

thermocline_statistics public_statistics(const EngineStatistics& from) {
  return thermocline_statistics{
      .size = sizeof(thermocline_statistics),
      .budget_bytes = from.budget_bytes,
      .live_bytes = from.live_bytes,
      .peak_live_bytes = from.peak_live_bytes,
      .device_bytes = from.device_bytes,
      .peak_device_bytes = from.peak_device_bytes,
      .host_bytes = from.host_bytes,
      .peak_host_bytes = from.peak_host_bytes,
      .evicted_bytes = from.evicted_bytes,
      .restored_bytes = from.restored_bytes,
      .allocations = from.allocations,
      .frees = from.frees,
      .operations = from.operations,
      .pinned_buffers = from.pinned_buffers,
      .out_of_memory = from.out_of_memory,
      .live_buffers = from.live_buffers,
      .peak_live_buffers = from.peak_live_buffers,
      .allocated_bytes = from.allocated_bytes,
      .freed_bytes = from.freed_bytes,
      .created_bytes = from.created_bytes,
      .destroyed_bytes = from.destroyed_bytes,
      .host_taken_bytes = from.host_taken_bytes,
      .host_given_bytes = from.host_given_bytes,
      .host_live_bytes = from.host_live_bytes,
      .host_limit_bytes = from.host_limit_bytes,
      .nonresident_bytes = from.nonresident_bytes,
      .available_bytes = from.available_bytes,
      .largest_allocation_bytes = from.largest_allocation_bytes,
      .pinned_bytes = from.pinned_bytes,
  };
}

thermocline_result sleep_or_wake(OrderKind kind, std::uint64_t tag, thermocline_sleep_report* out) {
  if (out != nullptr && out->size < sizeof(thermocline_sleep_report::size)) return THERMOCLINE_INVALID_VALUE;
  SleepReport report;
  const int result = carry_out_sleep_order(kind, {.waits = true, .tag = tag}, &report);
  if (out == nullptr || result != CUDA_SUCCESS) return result;
  const thermocline_sleep_report all{.size = out->size,
                                     .device_bytes_before = report.device_bytes_before,
                                     .device_bytes = report.device_bytes,
                                     .pinned_bytes = report.pinned_bytes,
                                     .external_bytes = report.external_bytes,
                                     .in_use_bytes = report.in_use_bytes,
                                     .no_host_bytes = report.no_host_bytes,
                                     .other_bytes = report.other_bytes,
                                     .asleep_bytes = report.asleep_bytes,
                                     .copied_bytes = report.copied_bytes,
                                     .untagged_bytes = report.untagged_bytes};
  // As for statistics.
  std::memcpy(out, &all, std::min(out->size, sizeof all));
  return THERMOCLINE_OK;
}

thermocline_result sleep_or_wake_tagged(OrderKind kind, const char* name, thermocline_sleep_report* out) {
  if (name == nullptr || *name == '\0') return THERMOCLINE_INVALID_VALUE;
  std::uint64_t tag = 0;
  const CUresult found = with_host_memory([&] {
    tag = find_tag(name);
    return tag != 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  });
  return found == CUDA_SUCCESS ? sleep_or_wake(kind, tag, out) : result_of(found);
}

}  // namespace
}  // namespace thermocline

THERMOCLINE_EXPORT const char* thermocline_version() { return THERMOCLINE_VERSION; }

THERMOCLINE_EXPORT int thermocline_is_active() { return thermocline::Runtime::get().engines() != nullptr ? 1 : 0; }

THERMOCLINE_EXPORT thermocline_result thermocline_get_statistics(thermocline_statistics* out) {
  using namespace thermocline;
  if (out == nullptr || out->size < kFirstStatisticsBytes) return THERMOCLINE_INVALID_VALUE;
  if (!Runtime::get().has_run()) return THERMOCLINE_NOT_ACTIVE;
  return result_of(guarded([out] {
    EngineStatistics statistics;
    if (!Runtime::get().statistics(&statistics)) return CUDA_ERROR_NOT_READY;
    thermocline_statistics all = public_statistics(statistics);
    all.size = out->size;
    // A caller with an older version of the structure has room for fewer fields, one with a newer version for more than
    // this library knows.
    std::memcpy(out, &all, std::min(out->size, sizeof all));
    return CUDA_SUCCESS;
  }));
}

THERMOCLINE_EXPORT thermocline_result thermocline_visit_statistics(int names, thermocline_statistic_visitor visitor,
                                                                   void* user) {
  using namespace thermocline;
  if (visitor == nullptr || names < THERMOCLINE_NAMES || names > THERMOCLINE_NAMES_TENSORFLOW) {
    return THERMOCLINE_INVALID_VALUE;
  }
  if (!Runtime::get().has_run()) return THERMOCLINE_NOT_ACTIVE;
  EngineStatistics statistics;
  const CUresult result =
      guarded([&] { return Runtime::get().statistics(&statistics) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; });
  if (result != CUDA_SUCCESS) return result_of(result);
  if (names == THERMOCLINE_NAMES) {
    for (const Statistic& statistic : statistics_table()) visitor(statistic.name, statistic.read(statistics), user);
    return THERMOCLINE_OK;
  }
  for (const StatisticAlias& alias : names == THERMOCLINE_NAMES_PYTORCH ? pytorch_names() : tensorflow_names()) {
    visitor(alias.name, find_statistic(alias.ours)->read(statistics), user);
  }
  return THERMOCLINE_OK;
}

THERMOCLINE_EXPORT thermocline_result thermocline_reset_peaks() {
  using namespace thermocline;
  if (!Runtime::get().has_run()) return THERMOCLINE_NOT_ACTIVE;
  return result_of(guarded([] { return Runtime::get().reset_peaks() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }));
}

THERMOCLINE_EXPORT thermocline_result
thermocline_set_out_of_memory_callback(thermocline_out_of_memory_callback callback, void* user) {
  return thermocline::result_of(thermocline::guarded([callback, user] {
    thermocline::set_refusal_callback(callback, user);
    return CUDA_SUCCESS;
  }));
}

THERMOCLINE_EXPORT thermocline_result thermocline_pin(uint64_t device_address) {
  using namespace thermocline;
  const auto is_there = [device_address](Engine& engine) {
    return engine.find(DeviceAddress{device_address}).has_value() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  };
  const thermocline_result found = with_owner(device_address, is_there);
  if (found != THERMOCLINE_OK) return found;
  return result_of(keep(AccessList().word(device_address), "the program asked for it", [] { return CUDA_SUCCESS; }));
}

THERMOCLINE_EXPORT thermocline_result thermocline_step() {
  using namespace thermocline;
  return with_each([](Engine& engine) {
    if (Recorder* const recorder = Recorder::of(&engine); recorder != nullptr) recorder->step();
    engine.step();
    return CUDA_SUCCESS;
  });
}

THERMOCLINE_EXPORT thermocline_result thermocline_tag(const char* tag) {
  return thermocline::result_of(thermocline::with_host_memory([tag] {
    thermocline::tag_thread(thermocline::number_of_tag(tag == nullptr ? "" : tag));
    return CUDA_SUCCESS;
  }));
}

THERMOCLINE_EXPORT thermocline_result thermocline_tag_buffer(uint64_t device_address, const char* tag) {
  using namespace thermocline;
  return with_owner(device_address, [device_address, tag](Engine& engine) {
    const std::uint64_t number = number_of_tag(tag == nullptr ? "" : tag);
    return static_cast<CUresult>(engine.tag(DeviceAddress{device_address}, number).code());
  });
}

THERMOCLINE_EXPORT thermocline_result thermocline_trim() {
  using namespace thermocline;
  empty_caches();
  if (any_caching_heap() && engines_now() == nullptr) return THERMOCLINE_OK;
  return with_each([](Engine& engine) { return static_cast<CUresult>(engine.trim().code()); });
}

THERMOCLINE_EXPORT thermocline_result thermocline_evict(uint64_t device_address) {
  using namespace thermocline;
  return with_owner(device_address, [device_address](Engine& engine) {
    return static_cast<CUresult>(engine.evict(DeviceAddress{device_address}).code());
  });
}

THERMOCLINE_EXPORT thermocline_result thermocline_prefetch(uint64_t device_address) {
  using namespace thermocline;
  return with_owner(device_address, [device_address](Engine& engine) {
    return static_cast<CUresult>(engine.prefetch(DeviceAddress{device_address}).code());
  });
}

THERMOCLINE_EXPORT thermocline_result thermocline_sleep(thermocline_sleep_report* out) {
  return thermocline::sleep_or_wake(thermocline::OrderKind::kSleep, 0, out);
}

THERMOCLINE_EXPORT thermocline_result thermocline_sleep_tag(const char* tag, thermocline_sleep_report* out) {
  return thermocline::sleep_or_wake_tagged(thermocline::OrderKind::kSleep, tag, out);
}

THERMOCLINE_EXPORT thermocline_result thermocline_wake(thermocline_sleep_report* out) {
  return thermocline::sleep_or_wake(thermocline::OrderKind::kWake, 0, out);
}

THERMOCLINE_EXPORT thermocline_result thermocline_wake_tag(const char* tag, thermocline_sleep_report* out) {
  return thermocline::sleep_or_wake_tagged(thermocline::OrderKind::kWake, tag, out);
}

THERMOCLINE_EXPORT thermocline_result thermocline_validate() {
  using namespace thermocline;
  return with_each([](const Engine& engine) {
    engine.validate();
    return CUDA_SUCCESS;
  });
}
