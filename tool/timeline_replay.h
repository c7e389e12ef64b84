// SPDX-License-Identifier: Apache-2.0
// Common to `export` and `report`: the flags that select a replay, and the result of that replay as a timeline
// (trace/replay_timeline.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/profile.h"
#include "tool/replay_options.h"
#include "trace/replay_timeline.h"
#include "trace/split.h"

namespace CLI {  // NOLINT(readability-identifier-naming): theirs
class App;
}

namespace thermocline {

struct TimelineFlags : RecomputeFlags {
  std::string trace, device = "reference";
  std::string split = "off";
  std::optional<std::string> budget, policy, config;
  std::optional<std::size_t> steps;
};

struct TimelineReplay {
  const simulator::Profile* profile = nullptr;
  std::string policy;
  bool recomputes = false;  // it may recompute
  Bytes budget = 0, min_offload_bytes = 0;
  std::string budget_text;  // "11.93 GiB = 50% of the peak 23.86 GiB"
  Trace trace;              // as it was replayed
  bool steps_repeat = true;
  StepProgram program;
  // With --split: operators that needed more than the budget; trace and program before (no trace: nothing was split).
  std::vector<SplitOperator> too_large;
  std::optional<Trace> whole;
  StepProgram whole_program;
  ReplayOptions options;
  ReplayTimeline timeline;

  const Trace& unsplit() const { return whole ? *whole : trace; }
  const StepProgram& unsplit_program() const { return whole ? whole_program : program; }
};

void add_timeline_flags(CLI::App* command, TimelineFlags* flags);

// Replays the trace `path` according to the flags. Returns an exit status (exit_status.h), after an error message if it
// failed.
int replay_timeline_of(const TimelineFlags& flags, const std::string& path, TimelineReplay* out);

// Operators [begin, end) of the last `steps` steps of the timeline, and their times.
struct TimelineWindow {
  std::uint32_t begin = 0, end = 0;
  std::size_t first_step = 0;
  double begin_us = 0, end_us = 0;
};
TimelineWindow last_steps(const ReplayTimeline& timeline, std::size_t steps);

}  // namespace thermocline
