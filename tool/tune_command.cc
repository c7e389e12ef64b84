// SPDX-License-Identifier: Apache-2.0
// thermocline tune: the settings with which a recorded program is fastest on a device, within a budget. docs/tune.md
// describes the search.
//
// Every figure comes from a replay: the search runs the library itself, on the simulated device. The result is
// replayed once more, in adversarial order and under the race checker, before it is printed.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/message.h"
#include "tool/number_option.h"
#include "tool/output_file.h"
#include "tool/places.h"
#include "tool/replay_options.h"
#include "tool/splits.h"
#include "tool/tuned.h"
#include "tool/values.h"
#include "trace/bounds.h"
#include "trace/scaled.h"

namespace thermocline {
namespace {

constexpr unsigned kCurve[] = {100, 90, 80, 70, 60, 50, 40, 30, 20};
constexpr double kMostBatch = 1 << 20;
constexpr DecimalRange kBatches{"1", "1048576"};

struct TuneFlags : RecomputeFlags {
  std::string trace, device = "reference", slowdown = "10%", split = kNoSplits;
  std::optional<std::string> budget, output, pair;
  std::vector<double> batches;
  std::optional<std::size_t> steps;
  bool allow_trusting = false, curve = true, json = false;
};

class Tuner {
 public:
  // `whole`: the trace as recorded; `split`: the trace that is replayed under a budget.
  Tuner(const TuneFlags& flags, const Trace& whole, const SplitTrace& split, const simulator::Profile& profile,
        const std::string& simulator)
      : flags_(flags),
        trace_(split.trace),
        profile_(profile),
        meter_(trace_, whole, profile, simulator, flags.steps, flags.exact) {
    found_.trace = flags.trace;
    found_.profile = &profile;
    found_.steps = meter_.steps();
    found_.peak_live_bytes = whole.peak_live_bytes;
    found_.steps_repeat = meter_.steps_repeat();
    found_.exact = flags.exact;
    found_.is_split = split.any_split();
    found_.split_told = split_text(whole, split.operators);
    found_.split = split_json(whole, split.operators);
  }

  void set_budget(Bytes bytes, const Budget& budget) {
    found_.budget = bytes;
    found_.budget_text = budget.text(bytes, profile_.memory_bytes.value, found_.peak_live_bytes);
  }

  // False if the device failed.
  bool tune() {
    if (!meter_.failure().empty()) return false;
    const KnobSearch search = search_knobs(found_.defaults, terms(), asking());
    if (!meter_.failure().empty()) return false;
    found_.best = search.best;
    found_.runs = search.worth.has_value();
    if (search.begin) found_.with_defaults = *meter_.measure(found_.defaults, found_.budget);
    const Measured* const unlimited = meter_.unlimited();
    if (unlimited == nullptr) return false;
    found_.compute_ms = unlimited->step_ms;
    if (!found_.runs) found_.why_not = meter_.measure(found_.best, found_.budget)->why_not;
    if (found_.runs && !(confirm(unlimited->checksum) && explain())) return false;
    find_least_budget();
    if (flags_.curve) draw_curve();
    found_.replays = meter_.replays();
    return meter_.failure().empty();
  }

  TuneFindings& found() { return found_; }
  const std::string& failure() const { return meter_.failure().empty() ? failure_ : meter_.failure(); }

 private:
  KnobTerms terms() const {
    return {.trusting = flags_.allow_trusting,
            .recompute = flags_.exact && flags_.recompute.value_or("auto") == "auto"};
  }

  AskWorth asking() {
    return [this](const Knobs& knobs) -> std::optional<KnobWorth> {
      progress_.show(meter_.replays(), kLikelyReplays);
      const Measured* const measured = meter_.measure(knobs, found_.budget);
      if (measured == nullptr || !measured->runs) return std::nullopt;
      return KnobWorth{measured->step_ms, measured->all_ms};
    };
  }

  // Same bits in any order, and no races: the result must pass the same checks as every release.
  bool confirm(std::uint64_t checksum) {
    found_.with_best = *meter_.measure(found_.best, found_.budget);
    constexpr std::uint64_t kSeed = 1;
    const Measured* const checked = meter_.measure_checked(found_.best, found_.budget, kSeed);
    if (checked == nullptr) return false;
    if (checked->runs && checked->races == 0 && checked->checksum == checksum &&
        found_.with_best.checksum == checksum) {
      return true;
    }
    failure_ = "the settings that were found do not stand up to adversarial order; this is a fault of thermocline";
    return false;
  }

  bool explain() {
    for (const std::string& key : knob_keys()) {
      Knobs without = found_.best;
      copy_knob(found_.defaults, key, &without);
      if (without == found_.best) continue;
      const Measured* const measured = meter_.measure(without, found_.budget);
      if (measured == nullptr) return false;
      ChangedKnob& changed = found_.changed.emplace_back(ChangedKnob{key, std::nullopt});
      if (measured->runs) changed.without = KnobWorth{measured->step_ms, measured->all_ms};
    }
    const SwapBounds& bounds = swap_bounds();
    if (bounds.repeats()) {
      if (const Bounds b = bounds.under(found_.budget); b.is_feasible) found_.bound_ms = b.bound_ms;
    }
    if (flags_.allow_trusting || found_.best.safety == Safety::kTrusting) return true;
    Knobs trusting = found_.best;
    trusting.safety = Safety::kTrusting;
    const Measured* const measured = meter_.measure(trusting, found_.budget);
    if (measured == nullptr) return false;
    constexpr double kWorthSaying = 0.995;
    if (measured->runs && measured->step_ms < found_.with_best.step_ms * kWorthSaying) {
      found_.trusting_ms = measured->step_ms;
    }
    return true;
  }

  void find_least_budget() {
    found_.least_possible = swap_bounds().least_budget();
    const Bytes low = *found_.least_possible / 2;
    const auto runs = [this](Bytes budget) {
      progress_.show(meter_.replays(), kLikelyReplays);
      const Measured* const measured = meter_.measure(found_.best, budget);
      return measured != nullptr && measured->runs;
    };
    // More than the peak, because of whole pages and gaps between buffers.
    const Bytes high = found_.peak_live_bytes + found_.peak_live_bytes / 4 + 64 * kMiB;
    found_.least_budget = least_budget(low, std::min(high, profile_.memory_bytes.value), kMiB, runs);
    if (!found_.least_budget || *found_.least_budget <= kMiB) return;
    const Measured* const less = meter_.measure(found_.best, *found_.least_budget - kMiB);
    if (less != nullptr && !less->runs) found_.least_because = less->why_not;
  }

  void draw_curve() {
    std::vector<Bytes> budgets;
    for (const unsigned percent : kCurve) {
      const Bytes budget =
          SizeSetting::of_percent_millionths(percent * Bytes{1'000'000}).resolve(found_.peak_live_bytes);
      if (budget > 0 && budget <= profile_.memory_bytes.value) budgets.push_back(budget);
    }
    if (found_.budget < found_.peak_live_bytes) budgets.push_back(found_.budget);
    if (found_.least_budget) {
      std::erase_if(budgets, [this](Bytes budget) { return budget < *found_.least_budget; });
      budgets.push_back(*found_.least_budget);
    }
    std::ranges::sort(budgets, std::ranges::greater());
    budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
    for (const Bytes budget : budgets) {
      progress_.show(meter_.replays(), kLikelyReplays);
      const Measured* const plain = meter_.measure(found_.defaults, budget);
      const Measured* const tuned = meter_.measure(found_.best, budget);
      if (plain == nullptr || tuned == nullptr) return;
      CurvePoint point{.budget = budget, .default_ms = {}, .tuned_ms = {}, .bound_ms = {}};
      if (plain->runs) point.default_ms = plain->step_ms;
      if (tuned->runs) point.tuned_ms = tuned->step_ms;
      if (swap_bounds().repeats()) {
        if (const Bounds b = swap_bounds().under(budget); b.is_feasible) point.bound_ms = b.bound_ms;
      }
      found_.curve.push_back(point);
    }
  }

  const SwapBounds& swap_bounds() {
    if (!bounds_) bounds_.emplace(trace_, rates_of(profile_));
    return *bounds_;
  }

  // The number of replays of a typical search; used only for the progress display.
  static constexpr std::size_t kLikelyReplays = 70;

  const TuneFlags& flags_;
  const Trace& trace_;
  const simulator::Profile& profile_;
  ReplayMeter meter_;
  Progress progress_{"tuning"};
  std::optional<SwapBounds> bounds_;
  TuneFindings found_;
  std::string failure_;
};

// --- The largest batch ---

class BatchSearch {
 public:
  BatchSearch(const TuneFlags& flags, const TuneFindings& found, const std::string& simulator, BatchedTrace a,
              BatchedTrace b)
      : flags_(flags), found_(found), simulator_(simulator), a_(a), b_(b) {}

  bool run(double most_slowdown, PairFindings* out, std::string* reason) {
    out->first_batch = a_.batch;
    out->second_batch = b_.batch;
    out->most_slowdown = most_slowdown;
    most_slowdown_ = most_slowdown;
    const auto is_allowed = [](const BatchAnswer& a) { return a.is_allowed; };
    const auto is_whole = [](const BatchAnswer& a) { return a.runs && a.evicted_bytes == 0; };
    if (!largest(is_allowed, &out->best, reason) || !largest(is_whole, &out->whole, reason)) return false;
    out->is_limit_of_search = out->best && out->best->batch * 2 > kMostBatch;
    for (const auto& [batch, answer] : asked_) out->asked.push_back(answer);
    return true;
  }

 private:
  // Doubles the batch until `does_it` is false, then bisects. Assumes that if a batch is acceptable, smaller ones are
  // too.
  bool largest(const std::function<bool(const BatchAnswer&)>& does_it, std::optional<BatchAnswer>* out,
               std::string* reason) {
    double does = 0, does_not = 1;
    bool is_doubling = true;
    while (does_not > does + 1 || is_doubling) {
      const double batch = is_doubling ? does_not : std::floor((does + does_not) / 2);
      const BatchAnswer* const answer = ask(batch, reason);
      if (answer == nullptr) return false;
      if (does_it(*answer)) {
        does = batch;
        *out = *answer;
        if (is_doubling) does_not = batch * 2;
      } else {
        does_not = batch;
        is_doubling = false;
      }
      if (does_not > kMostBatch) break;
    }
    return true;
  }

  const BatchAnswer* ask(double batch, std::string* reason) {
    if (const auto known = asked_.find(batch); known != asked_.end()) return &known->second;
    progress_.show(asked_.size(), 2 * static_cast<std::size_t>(std::log2(kMostBatch)));
    Trace trace;
    if (!scale_trace(a_, b_, batch, &trace, reason)) return nullptr;
    ReplayMeter meter(trace, trace, *found_.profile, simulator_, flags_.steps, flags_.exact);
    const Measured* const limited = meter.failure().empty() ? meter.measure(found_.best, found_.budget) : nullptr;
    const Measured* const unlimited = limited == nullptr ? nullptr : meter.unlimited();
    if (unlimited == nullptr) {
      *reason = meter.failure();
      return nullptr;
    }
    const bool is_allowed = limited->runs && limited->step_ms <= unlimited->step_ms * (1 + most_slowdown_);
    const BatchAnswer answer = {.batch = batch,
                                .step_ms = limited->step_ms,
                                .compute_ms = unlimited->step_ms,
                                .peak_live_bytes = trace.peak_live_bytes,
                                .evicted_bytes = limited->last.evicted_bytes + limited->last.dropped_bytes,
                                .runs = limited->runs,
                                .is_allowed = is_allowed};
    return &asked_.emplace(batch, answer).first->second;
  }

  const TuneFlags& flags_;
  const TuneFindings& found_;
  const std::string& simulator_;
  BatchedTrace a_, b_;
  double most_slowdown_ = 0;
  std::map<double, BatchAnswer> asked_;
  Progress progress_{"looking for the largest batch"};
};

std::optional<double> batch_in_header(const Trace& trace) {
  const auto header = nlohmann::json::parse(trace.header, nullptr, false);
  if (!header.is_object() || !header.contains("batch") || !header["batch"].is_number()) return std::nullopt;
  return header["batch"].get<double>();
}

// Two different positive numbers, from the flag or from the recordings.
bool find_batches(const TuneFlags& flags, const Trace& a, const Trace& b, double batches[2]) {
  for (std::size_t i = 0; i < 2; ++i) {
    const Trace& trace = i == 0 ? a : b;
    const auto batch = flags.batches.empty() ? batch_in_header(trace) : std::optional(flags.batches[i]);
    if (!batch) {
      say(trace.path + ": does not say of which batch size it is; give both with --batches A,B");
      return false;
    }
    batches[i] = *batch;
  }
  if (batches[0] >= 1 && batches[1] >= 1 && batches[0] != batches[1]) return true;
  say("--pair: two recordings at two batch sizes of at least 1 are needed");
  return false;
}

std::optional<double> parse_slowdown(const std::string& text) {
  ParseError error;
  const auto size = parse_size(text, {.allow_bytes = false, .allow_zero = true, .most_percent = 1000}, &error);
  if (!size) {
    say("--max-slowdown: " + error.message + did_you_mean(error.suggestion));
    return std::nullopt;
  }
  constexpr Bytes kWhole = 1'000'000;
  return static_cast<double>(size->resolve(kWhole)) / static_cast<double>(kWhole);
}

struct TuneJob {
  const simulator::Profile* profile = nullptr;
  std::optional<Budget> budget;
  double slowdown = 0;
  std::string simulator;
  Trace trace, other;
  double batches[2] = {};
};

int check_flags(const TuneFlags& flags, TuneJob* job) {
  if (flags.json && flags.output == "-") {
    say("--json and -o - are both for stdout; give -o a file");
    return kWrongUsage;
  }
  job->profile = find_device_flag(flags.device, "--device");
  if (job->profile == nullptr || !is_split_mode(flags.split)) return kWrongUsage;
  if (flags.budget && !(job->budget = parse_budget_flag(*flags.budget, "--budget", Whole::kPeak))) return kWrongUsage;
  Settings asked = default_settings();
  if (!take_recompute_flag(flags, &asked)) return kWrongUsage;
  remark_on_recompute(asked, flags.exact);
  const auto slowdown = parse_slowdown(flags.slowdown);
  if (!slowdown) return kWrongUsage;
  job->slowdown = *slowdown;
  if (!flags.batches.empty() && (!flags.pair || flags.batches.size() != 2)) {
    say("--batches takes two numbers, and goes with --pair");
    return kWrongUsage;
  }
  return kDone;
}

int prepare(const TuneFlags& flags, TuneJob* job) {
  if (const int status = check_flags(flags, job); status != kDone) return status;
  std::string looked;
  const std::optional<std::string> simulator = find_simulator(&looked);
  if (!simulator) {
    say("the simulated device is not installed; looked for " + looked);
    return kFailed;
  }
  job->simulator = *simulator;
  if (!read_trace_file(flags.trace, &job->trace)) return kBadInput;
  StepProgram program;
  std::string reason;
  if (flags.steps && !plan_steps(job->trace, *flags.steps, &program, &reason)) {
    say(flags.trace + ": " + reason);
    return kBadInput;
  }
  if (!flags.pair) return kDone;
  if (!read_trace_file(*flags.pair, &job->other)) return kBadInput;
  if (!find_batches(flags, job->trace, job->other, job->batches)) return kWrongUsage;
  Trace scaled;
  if (scale_trace({&job->trace, job->batches[0]}, {&job->other, job->batches[1]}, job->batches[0], &scaled, &reason)) {
    return kDone;
  }
  say(reason);
  return kBadInput;
}

Bytes budget_bytes(const TuneJob& job, const Budget& budget) {
  const Bytes device_bytes = job.profile->memory_bytes.value;
  const Bytes wanted = budget.resolve(device_bytes, job.trace.peak_live_bytes);
  if (wanted > device_bytes) {
    say("note: the budget is more than " + std::string(job.profile->name) + " has; it gets " +
        human_bytes(device_bytes));
  }
  return std::min(wanted, device_bytes);
}

// Timed with the default settings.
SplitTrace split_job(const TuneFlags& flags, const TuneJob& job, Bytes budget) {
  const DeviceRates rates = rates_of(*job.profile);
  const WantedSteps steps{flags.steps, ReplayMeter::kUsualSteps, steady_step(job.trace, rates).repeats};
  ReplayOptions options = replay_options(default_settings(), *job.profile, job.simulator, budget);
  options.device.check = false;
  options.exact = flags.exact;
  return take_splits(flags.split, job.trace, budget, rates,
                     [&](const Trace& trace) { return replayed_step_ms(trace, steps, options); });
}

int tune(const TuneFlags& flags) {
  TuneJob job;
  if (const int status = prepare(flags, &job); status != kDone) return status;
  // Errors of opening the file are reported before the work is done.
  std::unique_ptr<OutputFile> file;
  if (flags.output && !(file = OutputFile::open(*flags.output))) return kFailed;
  TuneFindings found;
  {
    const Budget budget = job.budget.value_or(whole_device());
    const Bytes bytes = budget_bytes(job, budget);
    const SplitTrace split = split_job(flags, job, bytes);
    Tuner tuner(flags, job.trace, split, *job.profile, job.simulator);
    tuner.set_budget(bytes, budget);
    if (!tuner.tune()) {
      say(flags.trace + ": " + tuner.failure());
      return kFailed;
    }
    found = tuner.found();
  }
  if (flags.pair) {
    std::string reason;
    BatchSearch search(flags, found, job.simulator, {&job.trace, job.batches[0]}, {&job.other, job.batches[1]});
    if (!search.run(job.slowdown, &found.pair.emplace(), &reason)) {
      say(flags.trace + ": " + reason);
      return kFailed;
    }
  }
  // If the settings file goes to stdout, the figures are shown on stderr.
  if (flags.json) {
    print_findings_json(found);
  } else {
    print_findings(found, flags.output == "-" ? stderr : stdout);
  }
  if (!found.runs) return kFailed;
  if (!file) return kDone;
  file->write(settings_file(found));
  if (!file->finish()) return kFailed;
  if (*flags.output != "-")
    say("wrote " + *flags.output + "; use it: thermocline run --config " + shell_word(*flags.output) + " -- PROGRAM");
  return kDone;
}

}  // namespace

void add_tune(CLI::App& app, CommandLine* line) {
  auto flags = std::make_shared<TuneFlags>();
  CLI::App* command = app.add_subcommand("tune", "Find the settings under which a recorded program is fastest");
  command->add_option("TRACE", flags->trace, kTraceHelp)->required();
  command->add_option("--device", flags->device,
                      "device profile (default: reference; 'thermocline devices' lists them)");
  command->add_option(
      "--budget", flags->budget,
      "most device memory: 12GiB, 60%peak (of the trace's peak; so is 60%), 60%device (default: all of the device's)");
  add_recompute_flags(command, flags.get(),
                      "off or auto: whether to try dropping and recomputing contents; with --exact (default: auto)");
  add_split_flag(command, &flags->split);
  command->add_option("-o,--output", flags->output, "write the settings into this file, with comments ('-': stdout)");
  command->add_option("--pair", flags->pair,
                      "the same program recorded at another batch size: says the largest batch that is worth it");
  add_number(command, "--batches", flags->batches, kBatches,
             "the two batch sizes, A,B (default: as the recordings say)")
      ->delimiter(',');
  command->add_option("--max-slowdown", flags->slowdown,
                      "with --pair: how much slower than with unlimited memory is still worth it (default: 10%)");
  add_number(command, "--steps", flags->steps, kStepCounts,
             "how many steps each replay has; the file's last one repeats (default: 8, or the file's where it has more "
             "or they differ)");
  command->add_flag("--allow-trusting", flags->allow_trusting,
                    "may choose safety = \"trusting\", for programs all of whose accesses are known");
  command->add_flag("!--no-curve", flags->curve, "leave out the curve of step time over budget, which is quicker");
  command->add_flag("--json", flags->json, "one JSON object on stdout");
  command->callback([=] { line->action = [flags] { return tune(*flags); }; });
}

}  // namespace thermocline
