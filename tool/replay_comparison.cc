// SPDX-License-Identifier: Apache-2.0
#include "tool/replay_comparison.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tool/exit_status.h"
#include "tool/json_text.h"
#include "tool/message.h"
#include "tool/replay_json.h"

namespace thermocline {
namespace {

using nlohmann::ordered_json;

struct ComparedReplay {
  std::string asked, name;
  ReplayJob job;
  ReplayFindings outcome;
};

void print_comparison(const ReplayFlags& flags, const std::vector<ComparedReplay>& compared) {
  const ComparedReplay& first = compared.front();
  std::fprintf(stdout, "%s on %s, peak %s\n  %-22s", flags.trace.c_str(), flags.device.c_str(),
               human_bytes(first.job.trace.peak_live_bytes).c_str(), "");
  for (const ComparedReplay& c : compared) std::fprintf(stdout, " %18s", c.name.c_str());
  const auto row = [&](const char* name, const auto& value) {
    std::fprintf(stdout, "\n  %-22s", name);
    for (const ComparedReplay& c : compared) std::fprintf(stdout, " %18s", value(c).c_str());
  };
  const auto steady = [](const ComparedReplay& c) {
    return steady_steps(c.job, c.outcome).ms(c.outcome.with_budget.steps);
  };
  const auto text = [](double value, const char* unit) {
    char line[32];
    std::snprintf(line, sizeof line, "%.3f%s", value, unit);
    return std::string(line);
  };
  const auto if_runs = [](const ComparedReplay& c, const std::string& value) {
    return is_complete(c.outcome) ? value : "out of memory";
  };
  row("budget", [](const ComparedReplay& c) { return human_bytes(c.job.budget_bytes); });
  row("of the peak", [](const ComparedReplay& c) {
    return std::to_string((c.job.budget_bytes * 100 + c.job.trace.peak_live_bytes / 2) / c.job.trace.peak_live_bytes) +
           "%";
  });
  row("a step", [&](const ComparedReplay& c) { return if_runs(c, text(steady(c), " ms")); });
  row("against the first", [&](const ComparedReplay& c) {
    return is_complete(first.outcome) && is_complete(c.outcome) ? text(steady(c) / steady(first), " x") : "-";
  });
  row("at best", [&](const ComparedReplay& c) { return c.outcome.bound_ms ? text(*c.outcome.bound_ms, " ms") : "-"; });
  row("against at best", [&](const ComparedReplay& c) {
    return is_complete(c.outcome) && c.outcome.bound_ms ? text(steady(c) / *c.outcome.bound_ms, " x") : "-";
  });
  row("at best, recomputing",
      [&](const ComparedReplay& c) { return c.outcome.joint_bound_ms ? text(*c.outcome.joint_bound_ms, " ms") : "-"; });
  row("recomputed, a step", [&](const ComparedReplay& c) {
    return if_runs(c, text(steady_steps(c.job, c.outcome).recomputed_ms(c.outcome.with_budget.steps), " ms"));
  });
  row("steps under a plan", [](const ComparedReplay& c) {
    const std::vector<ReplayStep>& steps = c.outcome.with_budget.steps;
    const std::optional<std::size_t> learned = learned_after_steps(steps);
    return learned ? std::to_string(steps.size() - *learned) + " of " + std::to_string(steps.size()) : "none";
  });
  row("out, all steps",
      [](const ComparedReplay& c) { return human_bytes(c.outcome.with_budget.statistics.evicted_bytes); });
  row("in, all steps",
      [](const ComparedReplay& c) { return human_bytes(c.outcome.with_budget.statistics.restored_bytes); });
  row("host memory",
      [](const ComparedReplay& c) { return human_bytes(c.outcome.with_budget.statistics.peak_host_bytes); });
  row("waits of the host",
      [](const ComparedReplay& c) { return std::to_string(c.outcome.with_budget.statistics.host_waits); });
  row("same results", [&](const ComparedReplay& c) {
    return if_runs(c, c.outcome.with_budget.checksum == c.outcome.unlimited.checksum ? "yes" : "NO");
  });
  std::fputc('\n', stdout);
}

}  // namespace

int compare_replays(const ReplayFlags& flags) {
  std::vector<ComparedReplay> compared;
  ordered_json left_out = ordered_json::array();
  bool good = true;
  for (const std::string& name : flags.compare) {
    ReplayFlags each = flags;
    const bool is_file = name.find('/') != std::string::npos || name.ends_with(".toml");
    (is_file ? each.config : each.policy) = name;
    ComparedReplay& one = compared.emplace_back();
    one.asked = name;
    one.name = name.substr(name.rfind('/') + 1);
    const int status = replay_once(each, &one.job, &one.outcome);
    if (!one.job.why_no_plan.empty()) {
      say(flags.trace + ": " + one.job.why_no_plan);
      left_out.push_back({{"name", name}, {"why", one.job.why_no_plan}});
      compared.pop_back();
    } else if (status != kDone) {
      return status;
    } else {
      good = replay_holds(each, one.outcome) && good;
    }
  }
  if (compared.empty()) return kBadInput;
  if (flags.json) {
    ordered_json runs = ordered_json::array();
    for (const ComparedReplay& one : compared) {
      ReplayFlags each = flags;
      each.policy = one.asked;
      if (plan_policy_of(each) == nullptr) each.policy = flags.policy;
      ordered_json run = replay_json(each, one.job, one.outcome);
      run["name"] = one.asked;
      runs.push_back(std::move(run));
    }
    std::puts(json_text({{"schema", "thermocline-replay-compare/1"}, {"runs", runs}, {"left_out", left_out}}).c_str());
  } else {
    print_comparison(flags, compared);
  }
  return good ? kDone : kFailed;
}

}  // namespace thermocline
