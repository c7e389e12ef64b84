// SPDX-License-Identifier: Apache-2.0
#include "tool/splits.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "config/suggest.h"
#include "driver/page_size.h"
#include "driver/quantity.h"
#include "tool/message.h"
#include "tool/values.h"

namespace thermocline {
namespace {

// How much of the budget one operator may need, in sixteenths, in the order of trying.
constexpr std::uint64_t kShares[] = {14, 12, 8, 5, 3};
// Times that differ by less are equal.
constexpr double kFaster = 0.999;
constexpr std::uint64_t kWhole = 16;
constexpr std::string_view kModes[] = {kNoSplits, kAutoSplits};

SplitTrace split_within(const Trace& trace, Bytes limit, double launch_seconds) {
  return split_operators(trace, {.limit = limit, .page_bytes = kDefaultPageBytes, .launch_seconds = launch_seconds});
}

// The number of parts of each operator that is split.
std::map<std::uint32_t, std::uint32_t> counts_of(const SplitTrace& split) {
  std::map<std::uint32_t, std::uint32_t> parts;
  for (const SplitOperator& o : split.operators) {
    if (o.parts > 1) parts[o.op] = o.parts;
  }
  return parts;
}

}  // namespace

CLI::Option* add_split_flag(CLI::App* command, std::string* mode) {
  return command->add_option(
      "--split", *mode,
      "auto: operators that need more than the budget are split where the trace says that this is "
      "possible (default: off)");
}

bool is_split_mode(const std::string& mode) {
  if (mode == kNoSplits || mode == kAutoSplits) return true;
  say("--split: '" + mode + "' is neither off nor auto" + did_you_mean(nearest_name(mode, kModes)));
  return false;
}

SplitTrace split_for_budget(const Trace& trace, Bytes budget, const DeviceRates& rates,
                            const std::function<std::optional<double>(const Trace&)>& step_ms) {
  SplitTrace best = split_within(trace, budget, rates.launch_seconds);
  if (trace.marks.empty()) return best;
  std::optional<double> least = step_ms(best.trace);
  if (least && !best.any_split()) return best;
  SplitTrace last = best;
  for (const std::uint64_t share : kShares) {
    SplitTrace next = split_within(trace, budget / kWhole * share, rates.launch_seconds);
    if (counts_of(next) == counts_of(last)) continue;
    const std::optional<double> ms = step_ms(next.trace);
    if (ms && (!least || *ms < *least * kFaster)) {
      least = ms;
      best = next;
    }
    last = std::move(next);
  }
  return best;
}

std::optional<double> replayed_step_ms(const Trace& trace, const WantedSteps& steps, const ReplayOptions& options) {
  StepProgram program;
  ReplayResult result;
  std::string ignored;
  if (!choose_steps(trace, steps.asked, steps.usual, steps.repeat, &program, &ignored) ||
      !replay(trace, program, options, &result, &ignored) || result.outcome != ReplayOutcome::kOk) {
    return std::nullopt;
  }
  return SteadySteps{learned_after_steps(result.steps), steps.repeat}.ms(result.steps);
}

SplitTrace take_splits(const std::string& mode, const Trace& trace, Bytes budget, const DeviceRates& rates,
                       const std::function<std::optional<double>(const Trace&)>& step_ms) {
  if (mode != kNoSplits) return split_for_budget(trace, budget, rates, step_ms);
  if (const std::string remark = split_remark(trace, budget); !remark.empty()) say(remark);
  return {trace, {}};
}

std::string split_text(const Trace& recorded, const std::vector<SplitOperator>& split) {
  std::map<std::pair<std::string, std::uint32_t>, std::size_t> counts;
  for (const SplitOperator& o : split) {
    if (o.parts > 1) ++counts[{recorded.names[recorded.operators[o.op].name], o.parts}];
  }
  std::string text;
  for (const auto& [which, count] : counts) {
    text += (text.empty() ? "" : ", ") + which.first + " into " + quantity(which.second, "part") + " (" +
            quantity(count, "operator") + ")";
  }
  return text;
}

nlohmann::ordered_json split_json(const Trace& recorded, const std::vector<SplitOperator>& split) {
  if (split.empty()) return nullptr;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const SplitOperator& o : split) {
    all.push_back(
        {{"operator", o.op},
         {"name", recorded.names[recorded.operators[o.op].name]},
         {"parts", o.parts},
         {"bytes", o.bytes},
         {"part_bytes", o.part_bytes},
         {"why_not", o.why_not.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(o.why_not)}});
  }
  return all;
}

std::string split_remark(const Trace& trace, Bytes budget) {
  if (trace.marks.empty()) return "";
  const std::string text = split_text(trace, split_within(trace, budget, 0).operators);
  return text.empty() ? "" : "note: one operator alone needs more than the budget; --split auto splits " + text;
}

}  // namespace thermocline
