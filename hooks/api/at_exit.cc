// SPDX-License-Identifier: Apache-2.0
// The end of the process. The driver may have shut down already, so nothing here calls it. Nothing is released either:
// the process's memory ends with the process.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "config/rank.h"
#include "config/trusted_file.h"
#include "driver/quantity.h"
#include "hooks/diagnostics/fallbacks.h"
#include "hooks/diagnostics/live_statistics.h"
#include "hooks/diagnostics/recorder.h"
#include "hooks/interpose/bypass.h"
#include "hooks/interpose/log.h"
#include "hooks/interpose/symbols.h"
#include "hooks/relaunch/kernel_codes.h"
#include "hooks/relaunch/kernel_verdicts.h"
#include "hooks/relaunch/known_launch.h"
#include "hooks/relaunch/nothing_dropped.h"
#include "hooks/runtime/counters.h"
#include "hooks/runtime/runtime.h"
#include "hooks/runtime/statistics.h"
#include "hooks/submit/submit.h"
#include "offload/engine/audit.h"

namespace thermocline {
namespace {

// Libraries that have been unloaded by now cannot be examined.
void report_bypassing_libraries() {
  if (!driver_is_loaded() || !sees_operations()) return;
  const std::vector<PastUs> objects = bypassing_libraries();
  if (objects.empty()) return;
  for (std::size_t i = 0; i < objects.size(); ++i) count(Counter::kBypassingLibraries);
  log_line(LogLevel::kWarning,
           "the driver was called past the library by %s: what that did to memory was not seen (RTLD_DEEPBIND?)",
           bypass_text(objects).c_str());
}

void print_statistics(StatsForm form, const EngineStatistics& statistics, const std::string& budget_origin) {
  const std::optional<Rank> rank = rank_of_process();
  const bool recomputes = recompute_is_on.load();
  const std::vector<KernelVerdict> kernels = recomputes ? kernel_codes().verdicts() : std::vector<KernelVerdict>();
  const NothingDropped nothing =
      recomputes ? why_nothing_was_dropped(statistics, kernels, recompute_obstacles(), forbidden_by_settings())
                 : NothingDropped();
  if (form == StatsForm::kLine) {
    print_whole_line(statistics_line(statistics) + (rank ? " rank=" + std::to_string(rank->rank) : ""));
  } else if (form == StatsForm::kJson) {
    print_text(statistics_json(statistics, getpid(), rank ? std::optional(rank->rank) : std::nullopt,
                               recomputes ? nothing_dropped_json(nothing) + ", " + kernel_verdicts_json(kernels) : ""));
  } else {
    const std::string name = program_invocation_short_name;
    print_text(
        statistics_table(statistics, (rank ? "rank " + std::to_string(rank->rank) + ", " : "") + name, budget_origin));
    if (recomputes) print_text(nothing_dropped_text(nothing) + kernel_verdicts_text(kernels, 24));
  }
}

// Another thread may be inside the driver with a lock, and never leave it.
bool read_statistics(const Runtime& runtime, EngineStatistics* out) {
  constexpr std::chrono::milliseconds kBetween{1};
  constexpr int kAttempts = 2000;
  for (int attempt = 0; !runtime.try_statistics(out); ++attempt) {
    if (Inside::now() || attempt == kAttempts) return false;
    std::this_thread::sleep_for(kBetween);
  }
  return true;
}

// Printed without being requested, because results may be wrong. Does not wait. A full fallback keeps such writes.
void warn_of_unseen_writes(const Runtime& runtime) {
  EngineStatistics statistics;
  if (!runtime.try_statistics(&statistics) || statistics.unseen_accesses == 0) return;
  if (runtime.wants_full_fallback() && statistics.unmapped_evictions == 0) return;
  print_whole_line("kernels wrote to memory that they were not seen to access (found " +
                   quantity(statistics.unseen_accesses, "time") +
                   "): results may be wrong; 'thermocline run --audit' names the kernel, and host_fallback = "
                   "\"full\" keeps what it writes");
}

// Writes the file for `thermocline kernels`: THERMOCLINE_KERNELS names it; a dot and the process id are added.
void leave_kernels() {
  const char* const base = variable_of_process("THERMOCLINE_KERNELS");
  if (base == nullptr || *base == '\0') return;
  const std::string path = std::string(base) + "." + std::to_string(getpid());
  const std::string text =
      "{\"schema\": \"thermocline-kernels/1\", " + kernel_verdicts_json(kernel_codes().seen_verdicts()) + "}\n";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return;
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = write(file, text.data() + done, text.size() - done);
    if (count <= 0 && errno != EINTR) break;
    if (count > 0) done += static_cast<std::size_t>(count);
  }
  close(file);
}

__attribute__((destructor)) void say_statistics() {
  hide_statistics();
  Recorder::end(true);
  Runtime& runtime = Runtime::get();
  try {
    leave_kernels();
    report_bypassing_libraries();
    if (!runtime.has_run()) return;
    if (runtime.wants_audit() && !audit_fault_was_said()) print_whole_line(audit_text(runtime.audit()));
    const StatsForm form = runtime.stats_form();
    EngineStatistics statistics;
    if (form == StatsForm::kOff) return warn_of_unseen_writes(runtime);
    if (!read_statistics(runtime, &statistics)) {
      print_line("no statistics: the process ended inside a driver call");
      return;
    }
    print_statistics(form, statistics, runtime.budget_origin());
    if (const std::string text = fallbacks_text(statistics); !text.empty()) print_whole_line(text);
    if (const std::string names = unknown_functions(); !names.empty()) {
      print_whole_line("driver functions that are not known here, and went unseen: " + names);
    }
  } catch (...) {
    print_line("no statistics");
  }
}

}  // namespace
}  // namespace thermocline
