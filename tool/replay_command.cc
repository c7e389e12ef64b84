// SPDX-License-Identifier: Apache-2.0
// thermocline replay: runs a recorded program through the library itself, on a simulated device.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>
#include <optional>

#include "driver/quantity.h"
#include "offload/recompute/obstacles.h"
#include "tool/alternatives.h"
#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/json_text.h"
#include "tool/message.h"
#include "tool/number_option.h"
#include "tool/policy_flag.h"
#include "tool/refused_event.h"
#include "tool/replay_comparison.h"
#include "tool/replay_job.h"
#include "tool/replay_json.h"
#include "tool/replay_options.h"
#include "tool/splits.h"
#include "tool/timeline_file.h"
#include "tool/values.h"
#include "trace/spread.h"

namespace thermocline {
namespace {

// Whether the figures are of steps under a plan, and if not, why.
std::string plan_text(const ReplayJob& job, const ReplayFindings& outcome) {
  if (!job.settings.policy->plans) return "";
  if (const std::optional<std::size_t> learned = learned_after_steps(outcome.with_budget.steps)) {
    const std::size_t steps = outcome.with_budget.steps.size() - *learned;
    return "the plan was in force in the last " + std::to_string(steps) + " of " +
           quantity(outcome.with_budget.steps.size(), "step");
  }
  if (outcome.with_budget.statistics.evicted_bytes == 0) return "no plan was needed: nothing had to leave";
  return "no plan was in force: " + quantity(outcome.with_budget.steps.size(), "step") +
         " did not repeat, or too few (--steps); the figures are without one";
}

// Where contents may be dropped and none was. Of all plans of the process the last one counts, which is the replay's.
std::string nothing_dropped_text(const ReplayFlags& flags, const ReplayJob& job, const ReplayResult& result) {
  if (!may_recompute(job.settings, flags.exact)) return "";
  if (result.statistics.dropped_buffers > 0 || result.statistics.plans == 0) return "";
  const RecomputeObstacles& obstacles = recompute_obstacles();
  if (obstacles.dropping_plans > 0)
    return "nothing was dropped to be recomputed: no step came under the plan that drops something (--steps)";
  return "nothing was dropped to be recomputed: " +
         why_the_plan_drops_nothing(obstacles, result.statistics.evictions > 0).sentence;
}

void print_json(const ReplayFlags& flags, const ReplayJob& job, const ReplayFindings& outcome) {
  std::puts(json_text(replay_json(flags, job, outcome)).c_str());
}

// The engine's report; its advice on the budget, which covers the refused request only, is replaced by the budget that
// suffices.
std::string report_with(std::optional<Bytes> suffices, std::size_t steps, std::string report) {
  if (!suffices) return report;
  constexpr std::string_view kAdvice = "  do     budget = ";
  const std::string size = std::to_string((*suffices + kMiB - 1) / kMiB) + "MiB";
  const std::string advice = std::string(kAdvice) + "\"" + size + "\" (--budget " + size +
                             "): " + (steps == 1 ? "the step runs" : "all " + std::to_string(steps) + " steps run") +
                             " in it\n";
  const std::size_t begin = report.find(kAdvice), first = report.find("\n  do     ");
  if (begin != std::string::npos) return report.replace(begin, report.find('\n', begin) + 1 - begin, advice);
  return first == std::string::npos ? report + advice : report.insert(first + 1, advice);
}

void print_text(const ReplayFlags& flags, const ReplayJob& job, const ReplayFindings& outcome) {
  const ReplayResult& result = outcome.with_budget;
  const std::size_t streams = job.trace.streams.size();
  std::fprintf(stdout, "%s on %s%s, budget %s: %s\n", flags.trace.c_str(), flags.device.c_str(),
               streams == 1 ? "" : (" in " + quantity(streams, "stream")).c_str(), budget_text(job).c_str(),
               is_complete(outcome) ? "ok" : "out of memory");
  if (!is_complete(outcome)) {
    const std::string report = report_with_names(job.trace, job.program, result);
    std::fputs(report_with(outcome.suffices, job.program.steps, report).c_str(), stdout);
    return;
  }
  if (const std::string taken = alternatives_text(job.trace.choices); !taken.empty())
    std::fprintf(stdout, "  of alternatives (%s) it takes %s\n", flags.alternatives.c_str(), taken.c_str());
  if (const std::string split = split_text(job.unsplit(), job.too_large); !split.empty())
    std::fprintf(stdout, "  split: %s\n", split.c_str());
  const SteadySteps of = steady_steps(job, outcome);
  const double steady = of.ms(result.steps), compute = of.ms(outcome.unlimited.steps);
  std::fprintf(stdout, "  a step takes %.2f ms, %.3f x unlimited memory (%.2f ms)\n", steady, steady / compute,
               compute);
  if (!of.repeat)
    std::fprintf(stdout, "  its steps differ: these are the median of all but the first two of %zu\n",
                 result.steps.size());
  if (outcome.bound_ms)
    std::fprintf(stdout, "  %s than %.2f ms: this is %.3f x that\n",
                 job.settings.recompute == Recompute::kOff ? "no swapping is faster"
                                                           : "swapping without recomputing is not faster",
                 *outcome.bound_ms, steady / *outcome.bound_ms);
  if (outcome.joint_bound_ms)
    std::fprintf(stdout, "  nor, with recomputation, than %.2f ms\n", *outcome.joint_bound_ms);
  if (const std::string plan = plan_text(job, outcome); !plan.empty()) std::fprintf(stdout, "  %s\n", plan.c_str());
  if (const std::string why = nothing_dropped_text(flags, job, result); !why.empty())
    std::fprintf(stdout, "  %s\n", why.c_str());
  std::fprintf(stdout, "  on the device %s at most, on the host %s; moved out %s, in %s\n",
               human_bytes(result.peak_device_bytes).c_str(), human_bytes(result.statistics.peak_host_bytes).c_str(),
               human_bytes(result.statistics.evicted_bytes).c_str(),
               human_bytes(result.statistics.restored_bytes).c_str());
  std::fprintf(stdout, "  checksum %s, %.0f events a second\n", checksum_text(result.checksum).c_str(),
               result.events_per_second);
}

int replay_trace(const ReplayFlags& flags) {
  ReplayJob job;
  ReplayFindings outcome;
  const int status = replay_once(flags, &job, &outcome);
  if (!job.why_no_plan.empty()) say(flags.trace + ": " + job.why_no_plan);
  if (status != kDone) return status;
  bool good = replay_holds(flags, outcome);
  if (flags.timeline && !is_whole_timeline(*flags.timeline)) {
    say(*flags.timeline + ": the timeline could not be written to its end");
    good = false;
  }
  if (flags.json)
    print_json(flags, job, outcome);
  else
    print_text(flags, job, outcome);
  return good ? kDone : kFailed;
}

}  // namespace

void add_replay(CLI::App& app, CommandLine* line) {
  auto flags = std::make_shared<ReplayFlags>();
  CLI::App* command = app.add_subcommand("replay", "Run a recorded program through the library on a simulated device");
  command->add_option("TRACE", flags->trace, kTraceHelp)->required();
  command->add_option("--device", flags->device,
                      "device profile (default: reference; 'thermocline devices' lists them)");
  command->add_option(
      "--budget", flags->budget,
      "most device memory: 12GiB, 60%peak (of the trace's peak; so is 60%), 60%device (default: all of the device's)");
  command->add_option("--policy", flags->policy, policy_help());
  command->add_option("--safety", flags->safety, "strict or trusting (default: strict)");
  command->add_option("--host-fallback", flags->host_fallback, "off, auto or full (default: the setting's)");
  add_recompute_flags(command, flags.get());
  command->add_flag("--digests", flags->digests,
                    "compare contents with their host copies, as programs do with digests = \"auto\"; without --exact");
  add_alternatives_flag(command, &flags->alternatives, true);
  add_split_flag(command, &flags->split);
  command->add_option("--config", flags->config, "a settings file; no other is read");
  add_number(
      command, "--steps", flags->steps, kStepCounts,
      "how many steps; the file's last one repeats (default: 12, or the file's where it has more or they differ)");
  add_number(command, "--streams", flags->streams, CountRange{1, kMostStreams},
             "deal the operators out to this many streams, ordered by the buffers they name and nothing else; "
             "with --seed by chance (default: the file's streams)");
  add_number(command, "--seed", flags->seed, kSeeds, "adversarial order of this number (default: order of time)");
  command->add_flag("!--no-check", flags->check, "do not look for races on the simulated device, which is quicker");
  command->add_flag("!--no-bound", flags->bound,
                    "do not say what no swapping can beat, which takes up to minutes where weights stream");
  command->add_flag("--joint-bound", flags->joint_bound,
                    "also say what no swapping and recomputing can beat, which takes up to minutes");
  command->add_option("--timeline", flags->timeline,
                      "write when everything ran into this file (open it with ui.perfetto.dev)");
  command->add_flag("--json", flags->json, "one JSON object on stdout");
  command->add_option("--compare", flags->compare, "two or more policies or settings files, side by side")
      ->expected(2, 8)
      ->excludes("--timeline");
  command->callback([=] {
    line->action = [flags] { return flags->compare.empty() ? replay_trace(*flags) : compare_replays(*flags); };
  });
}

}  // namespace thermocline
