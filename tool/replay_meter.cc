// SPDX-License-Identifier: Apache-2.0
#include "tool/replay_meter.h"

#include <algorithm>

#include "config/settings.h"
#include "driver/printable.h"
#include "offload/engine/operation_name.h"
#include "offload/page_bytes.h"
#include "tool/replay_options.h"
#include "tool/values.h"
#include "trace/steady_step.h"

namespace thermocline {
namespace {

// The subject of the refusal: "aten::mm", "an allocation".
std::string subject_of(const Trace& trace, const RefusedEvent& refused) {
  if (refused.kind != EventKind::kOperator) return "an allocation";
  const TraceOperator& op = trace.operators[refused.index];
  return printable(readable_kernel_name(trace.names[op.name])) + op.part_text();
}

// The reason in the report: the line that begins with "why"; "it" in this line is the subject of the first line.
std::string reason_in(const Trace& trace, const ReplayResult& result) {
  const std::string mark = "\n  why ", it = "it ";
  const std::size_t at = result.report.find(mark);
  if (at == std::string::npos) return "memory ran out";
  const std::size_t begin = result.report.find_first_not_of(' ', at + mark.size());
  std::string reason = result.report.substr(begin, result.report.find('\n', begin) - begin);
  if (!reason.starts_with(it) || !result.refused) return reason;
  return subject_of(trace, *result.refused) + " " + reason.substr(it.size());
}

}  // namespace

ReplayMeter::ReplayMeter(const Trace& trace, const Trace& whole, const simulator::Profile& profile,
                         const std::string& simulator, std::optional<std::size_t> steps, bool exact)
    : trace_(trace),
      whole_(whole),
      profile_(profile),
      simulator_(simulator),
      repeats_(steady_step(whole, rates_of(profile)).repeats),
      exact_(exact) {
  if (choose_steps(whole, steps, kUsualSteps, repeats_, &whole_program_, &failure_))
    choose_steps(trace, steps, kUsualSteps, repeats_, &program_, &failure_);
}

ReplayOptions ReplayMeter::options_of(const Knobs& knobs, Bytes budget) const {
  ReplayOptions options = replay_options(default_settings(), profile_, simulator_, budget);
  options.exact = exact_;
  options.engine.policy = knobs.policy;
  options.engine.recompute = knobs.recompute;
  options.engine.safety = knobs.safety;
  if (knobs.page_bytes != 0) options.engine.page_bytes = knobs.page_bytes;
  options.engine.min_offload_bytes = knobs.min_offload_bytes;
  options.engine.low_water_percent = knobs.low_water_percent;
  options.engine.clean_reserve_percent = knobs.clean_reserve_percent;
  options.device.check = false;
  return options;
}

bool ReplayMeter::run(const Trace& trace, const StepProgram& program, const ReplayOptions& options, Measured* out) {
  ++replays_;
  ReplayResult result;
  if (!replay(trace, program, options, &result, &failure_)) return false;
  *out = Measured();
  out->runs = result.outcome == ReplayOutcome::kOk;
  out->races = result.races;
  if (!out->runs) {
    out->why_not = reason_in(trace, result);
    return true;
  }
  out->step_ms = SteadySteps{learned_after_steps(result.steps), repeats_}.ms(result.steps);
  for (const ReplayStep& step : result.steps) out->all_ms += step.ms;
  out->last = result.steps.back();
  out->peak_host_bytes = result.statistics.peak_host_bytes;
  out->checksum = result.checksum;
  return true;
}

const Measured* ReplayMeter::measure(const Knobs& k, Bytes budget) {
  const ReplayOptions options = options_of(k, budget);
  // As the engine chooses, so that nothing is replayed twice.
  const Bytes limit = std::min(budget, Bytes{profile_.memory_bytes.value});
  const Bytes page = page_bytes_for(limit, options.engine.page_bytes, Bytes{profile_.page_bytes.value});
  const Key key{k.policy,    k.safety, page, k.min_offload_bytes, k.low_water_percent, k.clean_reserve_percent,
                k.recompute, budget};
  const auto known = known_.find(key);
  if (known != known_.end()) return &known->second;
  Measured measured;
  if (!run(options, &measured)) return nullptr;
  return &known_.emplace(key, measured).first->second;
}

const Measured* ReplayMeter::measure_checked(const Knobs& knobs, Bytes budget, std::uint64_t seed) {
  ReplayOptions options = options_of(knobs, budget);
  options.device.check = true;
  options.device.seed = seed;
  return run(options, &checked_) ? &checked_ : nullptr;
}

const Measured* ReplayMeter::unlimited() {
  if (unlimited_) return &*unlimited_;
  Measured measured;
  const ReplayOptions options = unlimited_options(options_of(Knobs(), 0), whole_);
  if (!run(whole_, whole_program_, options, &measured)) return nullptr;
  return &unlimited_.emplace(measured);
}

}  // namespace thermocline
