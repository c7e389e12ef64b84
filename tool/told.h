// SPDX-License-Identifier: Apache-2.0
// Common to `export` and `report`: the flags that select a replay, and the result of that replay as a story
// (trace/story.h).
#pragma once

#include <optional>
#include <string>

#include "simulator/profile.h"
#include "trace/story.h"

namespace CLI {  // NOLINT(readability-identifier-naming): theirs
class App;
}

namespace thermocline {

struct ToldFlags {
  std::string trace, device = "reference";
  std::optional<std::string> budget, policy, config;
  std::optional<std::size_t> steps;
};

struct Told {
  const simulator::Profile* profile = nullptr;
  std::string policy;
  Bytes budget = 0, min_offload_bytes = 0;
  std::string budget_told;  // "11.93 GiB = 50% of the peak 23.86 GiB"
  Trace trace;
  bool steps_repeat = true;
  StepProgram program;
  ReplayOptions options;
  Story story;
};

void add_told_flags(CLI::App* command, ToldFlags* flags);

// Replays the trace `path` according to the flags. Returns an exit status (exit_status.h), after an error message if it
// failed.
int tell(const ToldFlags& flags, const std::string& path, Told* out);

// Operators [begin, end) of the last `steps` steps of the story, and their times.
struct StoryWindow {
  std::uint32_t begin = 0, end = 0;
  std::size_t first_step = 0;
  double begin_us = 0, end_us = 0;
};
StoryWindow last_steps(const Story& story, std::size_t steps);

}  // namespace thermocline
