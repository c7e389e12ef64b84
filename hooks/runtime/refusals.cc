// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/refusals.h"
#include "driver/locks.h"
#include "driver/undisturbed.h"

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/log.h"
#include "hooks/interpose/nvtx_ranges.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/interpose/symbols.h"

namespace thermocline {
namespace {

struct Kept {
  struct Line {
    LogLevel level;
    std::string text;
  };
  std::string report;
  std::vector<Line> lines;
};
// A trivial type, so that it can be accessed while a thread begins or ends; the object is created when there is
// something to keep. Invariant: not null in as many threads as detail::keeping_threads counts; a thread that ends with
// an object leaves it there.
thread_local constinit Kept* kept = nullptr;
// Refusals within the callback are not passed to it: a callback that allocates would never return.
thread_local constinit bool is_in_callback = false;
thread_local constinit int holders = 0;
constinit std::atomic<std::uint64_t> forgotten{0};

struct Callback {
  Mutex mutex{"callback of refusals", lock_level::kLeaf};
  RefusalCallback function THERMOCLINE_GUARDED_BY(mutex) = nullptr;
  void* user THERMOCLINE_GUARDED_BY(mutex) = nullptr;
};
Callback& callback() { return process_lifetime<Callback>(); }

// The number of refusals by the first line of their reports. Invariant: `by_line` has at most kMostLines entries;
// further lines are counted together, as "".
struct Refusals {
  static constexpr std::size_t kMostLines = 256;
  Mutex mutex{"counts of refusals", lock_level::kLeaf};
  std::uint64_t all THERMOCLINE_GUARDED_BY(mutex) = 0;
  std::unordered_map<std::string, std::uint64_t> by_line THERMOCLINE_GUARDED_BY(mutex);
};
Refusals& refusals() { return process_lifetime<Refusals>(); }

// Programs that retry often, as frameworks do after emptying their caches, would fill the log. So the first report is
// written in full, then the second, the fourth, the eighth, and so on. Of the others only the first line is written,
// and repeated only for the second, the fourth, the eighth time.
void write_to_log(const std::string& report) {
  const std::string line = report.substr(0, report.find('\n'));
  std::uint64_t all = 0, times = 0;
  bool known = false;
  {
    Refusals& counts = refusals();
    const MutexLock lock(counts.mutex);
    all = ++counts.all;
    known = counts.by_line.contains(line) || counts.by_line.size() + 1 < Refusals::kMostLines;
    times = ++counts.by_line[known ? line : std::string()];
  }
  if (std::has_single_bit(all)) {
    log_text(LogLevel::kError, report);
  } else if (times == 1) {
    log_text(LogLevel::kError, line + "\n");
  } else if (std::has_single_bit(times)) {
    log_text(LogLevel::kError,
             line + "; " + std::to_string(times) + (known ? "" : ", with others") + " times so far\n");
  }
}

Kept& to_keep() {
  if (kept == nullptr) {
    kept = new Kept;
    detail::keeping_threads.fetch_add(1, std::memory_order_relaxed);
  }
  return *kept;
}

std::unique_ptr<const Kept> take_kept() {
  detail::keeping_threads.fetch_sub(1, std::memory_order_relaxed);
  return std::unique_ptr<const Kept>(std::exchange(kept, nullptr));
}

// The library has an unwinder of its own (-static-libgcc), which takes part when an exception of the program meets a frame
// of the library that catches it. Until it has been used once it knows no sizes of registers, and ends the process.
void wake_unwinder() {
  static const bool was_used = [] {
    try {
      throw 0;
    } catch (int) {
    }
    return true;
  }();
  static_cast<void>(was_used);
}

void give_out() {
  const std::unique_ptr<const Kept> all = take_kept();
  for (const Kept::Line& line : all->lines) log_line(line.level, "%s", line.text.c_str());
  const std::string& report = all->report;
  if (report.empty()) return;
  write_to_log(report);
  RefusalCallback function = nullptr;
  void* user = nullptr;
  {
    const MutexLock lock(callback().mutex);
    function = callback().function;
    user = callback().user;
  }
  if (function == nullptr || is_in_callback) return;
  is_in_callback = true;
  wake_unwinder();
  try {
    function(report.c_str(), user);
  } catch (...) {
    log_line(
        LogLevel::kError,
        "the program's out-of-memory callback threw an exception, which is dropped: the call is refused all the same");
  }
  is_in_callback = false;
}

}  // namespace

void keep_report(const std::string& report) {
  std::string& text = to_keep().report;
  text = report;
  if (const std::string ranges = nvtx_ranges(); !ranges.empty())
    text.insert(text.find('\n') + 1, "  in     " + ranges + " (NVTX ranges)\n");
}

void keep_line(LogLevel level, std::string line) { to_keep().lines.push_back({level, std::move(line)}); }

void forget_report() noexcept {
  if (kept == nullptr) return;
  if (!kept->report.empty()) forgotten.fetch_add(1, std::memory_order_relaxed);
  kept->report.clear();
  if (kept->lines.empty()) take_kept();
}

std::uint64_t forgotten_reports() noexcept { return forgotten.load(std::memory_order_relaxed); }

HoldsReport::HoldsReport() { ++holders; }
HoldsReport::~HoldsReport() { --holders; }

constinit std::atomic<int> detail::keeping_threads{0};

void detail::give_out_kept() noexcept {
  if (kept == nullptr || holders > 0 || Inside::now()) return;
  const Undisturbed undisturbed;
  try {
    give_out();
  } catch (...) {
    // There is no host memory for a report.
  }
}

void set_refusal_callback(RefusalCallback function, void* user) {
  const MutexLock lock(callback().mutex);
  callback().function = function;
  callback().user = user;
}

}  // namespace thermocline
