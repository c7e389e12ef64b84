// SPDX-License-Identifier: Apache-2.0
// Passes out-of-memory reports from the engine, which creates them with its lock held, to the log and to the program's
// callback, which are called without that lock. Other lines that arise under the lock take the same way.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "config/log_level.h"

namespace thermocline {

using RefusalCallback = void (*)(const char* report, void* user);

// The engine's report handler: stores the report for this thread.
void keep_report(const std::string& report);
// Drops the stored report, because the request was granted after all.
void forget_report() noexcept;
// How many were dropped so: engines have counted these requests as refused, which they were not in the end.
std::uint64_t forgotten_reports() noexcept;
// Stores a line for the log in the same way; forget_report() does not drop it.
void keep_line(LogLevel level, std::string line);

namespace detail {
// Threads that have stored something.
extern constinit std::atomic<int> keeping_threads;
void give_out_kept() noexcept;
}  // namespace detail

// Called outside the engine: writes what this thread has stored to the log, and the report to the callback.
inline void give_out_report() noexcept {
  if (detail::keeping_threads.load(std::memory_order_relaxed) != 0) [[unlikely]]
    detail::give_out_kept();
}
// Declare it before any lock, so that it ends after them.
struct GivesOutReport {
  GivesOutReport() = default;
  ~GivesOutReport() { give_out_report(); }
  GivesOutReport(const GivesOutReport&) = delete;
  GivesOutReport& operator=(const GivesOutReport&) = delete;
};
// While one lives this thread's report is only stored: what was refused is tried again in another way.
class HoldsReport {
 public:
  HoldsReport();
  ~HoldsReport();
  HoldsReport(const HoldsReport&) = delete;
  HoldsReport& operator=(const HoldsReport&) = delete;
};
// `callback` null: none.
void set_refusal_callback(RefusalCallback callback, void* user);

}  // namespace thermocline
