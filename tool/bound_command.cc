// SPDX-License-Identifier: Apache-2.0
// thermocline bound: lower bounds for the duration of a step under a budget.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>
#include <optional>

#include "driver/quantity.h"
#include "tool/alternatives.h"
#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/json_text.h"
#include "tool/message.h"
#include "tool/number_option.h"
#include "tool/splits.h"
#include "tool/values.h"
#include "trace/bounds.h"
#include "trace/joint_bound.h"

namespace thermocline {
namespace {

// Already a hundred take minutes for a budget, and the bound hardly changes (docs/bound.md).
constexpr CountRange kSlotCounts{1, 200};

struct BoundFlags {
  std::string trace;
  std::string device = "reference";
  std::string alternatives = kRecordedAlternatives, split = kNoSplits;
  std::vector<std::string> budgets{"80%peak", "70%peak", "60%peak", "50%peak", "40%peak"};
  std::optional<std::size_t> slots;
  std::string pages = "1";
  bool joint = false;
  bool json = false;
};

struct Row {
  std::string budget;
  Bytes bytes;
  Bounds bounds;
  std::optional<double> joint_ms;      // if requested and available
  std::vector<SplitOperator> split{};  // what the budget is too small for, with --split
  Bytes least_budget = 0;
};

void print_json(const BoundFlags& flags, const Trace& trace, const SwapBounds& bounds, const std::vector<Row>& rows) {
  nlohmann::ordered_json out = {{"schema", "thermocline-bound/1"},
                                {"trace", flags.trace},
                                {"device", flags.device},
                                {"peak_live_bytes", trace.peak_live_bytes},
                                {"compute_ms", bounds.step().busiest_stream * 1e3},
                                {"least_budget_bytes", bounds.least_budget()},
                                {"steps_repeat", bounds.repeats()},
                                {"alternatives", alternatives_json(trace.choices, flags.alternatives)},
                                {"rows", nlohmann::ordered_json::array()}};
  // Null: there is no such figure.
  const auto or_null = [](const auto& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  for (const Row& row : rows) {
    nlohmann::ordered_json r = {
        {"budget", row.budget}, {"budget_bytes", row.bytes}, {"feasible", row.bounds.is_feasible}};
    if (row.bounds.is_feasible) {
      r["restored_bytes"] = or_null(row.bounds.restored_bytes);
      r["volume_ms"] = or_null(row.bounds.volume_ms);
      r["pinch_ms"] = or_null(row.bounds.pinch_ms);
      r["slotted_ms"] = or_null(row.bounds.slotted_ms);
      r["bound_ms"] = row.bounds.bound_ms;
      if (flags.joint) r["joint_bound_ms"] = or_null(row.joint_ms);
    }
    if (flags.split != kNoSplits) r["split"] = split_json(trace, row.split);
    out["rows"].push_back(std::move(r));
  }
  std::puts(json_text(out).c_str());
}

void print_text(const BoundFlags& flags, const Trace& trace, const SwapBounds& bounds, const std::vector<Row>& rows) {
  const double compute = bounds.step().busiest_stream * 1e3;
  std::fprintf(stdout, "%s on %s: peak %s, %s a step, compute %.2f ms\n", flags.trace.c_str(), flags.device.c_str(),
               human_bytes(trace.peak_live_bytes).c_str(), quantity(bounds.step().operators(), "operator").c_str(),
               compute);
  if (!bounds.step().is_single_stream)
    std::fputs("its operators run on several streams, so that only the busiest one's time is a bound\n", stdout);
  if (!bounds.step().repeats)
    std::fputs("its steps differ: these figures are of one of them, as if it repeated\n", stdout);
  if (const std::string taken = alternatives_text(trace.choices); !taken.empty())
    std::fprintf(stdout, "bounds with these alternatives, others may be faster: %s\n", taken.c_str());
  for (const Row& row : rows) {
    std::fprintf(stdout, "  %10s %12s  ", row.budget.c_str(), human_bytes(row.bytes).c_str());
    if (!row.bounds.is_feasible) {
      std::fprintf(stdout, "does not fit: some operator needs %s\n", human_bytes(row.least_budget).c_str());
      continue;
    }
    const auto over_compute = [compute](double ms) { return compute > 0 ? ms / compute : 1.0; };
    std::fprintf(stdout, "no swapping is faster than %9.2f ms = %.3f x compute\n", row.bounds.bound_ms,
                 over_compute(row.bounds.bound_ms));
    if (row.joint_ms) {
      std::fprintf(stdout, "  %10s %12s  nor, with recomputation, %7.2f ms = %.3f x compute\n", "", "", *row.joint_ms,
                   over_compute(*row.joint_ms));
    }
    if (const std::string split = split_text(trace, row.split); !split.empty())
      std::fprintf(stdout, "  %10s %12s  with %s\n", "", "", split.c_str());
  }
}

// The bounds of a trace, as recorded or with its operators split for a budget.
class Bounding {
 public:
  Bounding(const BoundFlags& flags, const Trace& trace, const DeviceRates& rates, Bytes pages)
      : bounds(trace, rates, flags.slots.value_or(kDefaultSlots), pages) {
    if (flags.joint) joint_.emplace(steady_step(trace, rates), rates, flags.slots);
  }

  Row row(const std::string& budget, Bytes bytes) {
    Row row{budget, bytes, bounds.under(bytes), std::nullopt};
    row.least_budget = bounds.least_budget();
    if (joint_) row.joint_ms = joint_->under(bytes).bound_ms;
    return row;
  }

  SwapBounds bounds;

 private:
  std::optional<JointBounds> joint_;
};

// The row with those operators split for which the budget is too small.
Row split_row(const BoundFlags& flags, const Trace& trace, const DeviceRates& rates, Bytes pages, const Budget& budget,
              Bytes bytes) {
  // The fewest parts that fit are used: a bound for other numbers would need a search, too.
  const auto fits = [&](const Trace& tried) {
    return SwapBounds(tried, rates, 1, pages).least_budget() <= bytes ? std::optional(0.0) : std::nullopt;
  };
  SplitTrace split = split_for_budget(trace, bytes, rates, fits);
  Row row = Bounding(flags, split.trace, rates, pages).row(budget.text(), bytes);
  row.split = std::move(split.operators);
  return row;
}

int bound(const BoundFlags& flags) {
  const simulator::Profile* profile = find_device_flag(flags.device, "--device");
  if (profile == nullptr || !is_split_mode(flags.split)) return kWrongUsage;
  std::vector<Budget> budgets;
  for (const std::string& text : flags.budgets) {
    const auto budget = parse_budget_flag(text, "--budget", Whole::kPeak);
    if (!budget) return kWrongUsage;
    budgets.push_back(*budget);
  }
  const auto pages = parse_bytes_flag(flags.pages, "--pages");
  if (!pages) return kWrongUsage;
  Trace trace;
  Alternatives alternatives;
  if (!alternatives.read(flags.trace, flags.alternatives, false) || !alternatives.take(&trace)) return kBadInput;
  Bounding whole(flags, trace, rates_of(*profile), *pages);
  std::vector<Row> rows;
  Progress progress("bounding");
  for (const Budget& budget : budgets) {
    progress.show(rows.size(), budgets.size());
    const Bytes bytes = budget.resolve(profile->memory_bytes.value, alternatives.recorded().peak_live_bytes);
    const bool splits = flags.split != kNoSplits && bytes < whole.bounds.least_budget();
    rows.push_back(splits ? split_row(flags, trace, rates_of(*profile), *pages, budget, bytes)
                          : whole.row(budget.text(), bytes));
  }
  if (flags.json)
    print_json(flags, trace, whole.bounds, rows);
  else
    print_text(flags, trace, whole.bounds, rows);
  return kDone;
}

}  // namespace

void add_bound(CLI::App& app, CommandLine* line) {
  auto flags = std::make_shared<BoundFlags>();
  CLI::App* command =
      app.add_subcommand("bound", "How fast a step could be under a budget, if memory can only be swapped");
  command->add_option("TRACE", flags->trace, kTraceHelp)->required();
  command->add_option("--device", flags->device, "device profile (default: reference)");
  command
      ->add_option(
          "--budget", flags->budgets,
          "sizes, or parts of the trace's peak (60%peak; so is 60%) or of the device (60%device), separated by "
          "commas or spaces (default: 80%peak,70%peak,60%peak,50%peak,40%peak)")
      ->delimiter(',');
  add_number(command, "--slots", flags->slots, kSlotCounts,
             "about how many slots the step is cut into at a time (default: 20; with --joint 3 to 20, fewer for longer "
             "steps); more take "
             "longer");
  command->add_option(
      "--pages", flags->pages,
      "count buffers of this size and more in whole pages of it, as allocators do (default: 1, as asked "
      "for)");
  add_alternatives_flag(command, &flags->alternatives, false);
  add_split_flag(command, &flags->split);
  command->add_flag("--joint", flags->joint,
                    "also the bound for those who may recompute what they drop, which takes up to minutes");
  command->add_flag("--json", flags->json, "one JSON object on stdout");
  command->callback([=] { line->action = [flags] { return bound(*flags); }; });
}

}  // namespace thermocline
