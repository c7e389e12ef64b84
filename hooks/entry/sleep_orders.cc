// SPDX-License-Identifier: Apache-2.0
#include "hooks/entry/sleep_orders.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "driver/locks.h"
#include "hooks/capture/capture_state.h"
#include "hooks/diagnostics/live_statistics.h"
#include "hooks/entry/own_threads.h"
#include "hooks/runtime/caching_heaps.h"
#include "hooks/runtime/guarded.h"
#include "hooks/runtime/runtime.h"
#include "hooks/submit/submit.h"

namespace thermocline {
namespace {

using Clock = std::chrono::steady_clock;

// The longest time to wait for work in flight and for captures. An order can be given again.
constexpr std::chrono::seconds kLongestWait{10};
constexpr std::chrono::milliseconds kShortestPause{1}, kLongestPause{50};

// The results of an order over all its attempts.
struct Course {
  std::map<const Engine*, std::uint64_t> since;
  std::map<const Engine*, SleepReport> reports;
};

void note(Course& course, const Engine* engine, const SleepReport& report) {
  const auto [at, is_first] = course.reports.try_emplace(engine, report);
  course.since[engine] = report.since;
  if (is_first) return;
  SleepReport all = report;
  all.device_bytes_before = at->second.device_bytes_before;
  all.copied_bytes += at->second.copied_bytes;
  at->second = all;
}

CUresult ask(const ActiveEngine& active, OrderKind kind, SleepRequest request, Course& course) {
  const CurrentContext context(active);
  if (context.is_refused()) return CUDA_ERROR_NOT_READY;
  if (const auto since = course.since.find(active.engine); since != course.since.end()) request.since = since->second;
  SleepReport report;
  const Status status =
      kind == OrderKind::kSleep ? active.engine->sleep(request, &report) : active.engine->wake(request, &report);
  if (status.ok()) note(course, active.engine, report);
  return static_cast<CUresult>(status.code());
}

// Steps that the driver does not allow while a stream captures are left for the next attempt.
CUresult attempt(OrderKind kind, const SleepRequest& request, Course& course) {
  if (Runtime::get().broken()) return CUDA_ERROR_UNKNOWN;
  if (any_capture()) return CUDA_ERROR_NOT_READY;
  return guarded([&] {
    // No engine ends during this.
    const HeldEngines engines(HeldEngines::Even::kOne);
    if (engines.none()) return any_caching_heap() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_NOT_INITIALIZED;
    const Inside inside;
    const CaptureTruce truce;
    CUresult first = CUDA_SUCCESS;
    for (const ActiveEngine* active : *engines) {
      const CUresult result = ask(*active, kind, request, course);
      if (first == CUDA_SUCCESS) first = result;
    }
    return first;
  });
}

SleepReport sum_of(const Course& course) {
  SleepReport sum;
  for (const auto& [engine, report] : course.reports) sum += report;
  return sum;
}

int obey(OrderKind kind, std::uint64_t tag, SleepReport* report) {
  const Clock::time_point until = Clock::now() + kLongestWait;
  Course course;
  for (auto pause = kShortestPause;; pause = std::min(2 * pause, kLongestPause)) {
    CUresult result = CUDA_ERROR_DEINITIALIZED;
    {
      const OwnThreadTurn turn;
      const WaitsInPlace alone;
      if (process_ends().load()) return result;
      result = attempt(kind, {.tag = tag, .stop = &process_ends()}, course);
    }
    *report = sum_of(course);
    const bool is_over = result == CUDA_ERROR_NOT_READY ? false : !report->is_busy || result != CUDA_SUCCESS;
    if (is_over || Clock::now() >= until) return result;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

void take_sleep_orders() {
  if (end_own_threads_with_process()) carry_out_orders_with(&obey);
}

int carry_out_sleep_order(OrderKind kind, const SleepRequest& request, SleepReport* report) {
  Course course;
  const CUresult result = attempt(kind, request, course);
  *report = sum_of(course);
  return result;
}

}  // namespace thermocline
