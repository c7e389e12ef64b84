// SPDX-License-Identifier: Apache-2.0
// The result of `thermocline tune` and its output: a commented settings file, a table with the curve of step time over
// budget, and one JSON object.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "driver/units.h"
#include "simulator/profile.h"
#include "tool/replay_meter.h"
#include "trace/tuning.h"

namespace thermocline {

// A setting that differs from the default, and the step time with its default; none: the program does not run then.
struct ChangedKnob {
  std::string key;
  std::optional<KnobWorth> without;
};

struct CurvePoint {
  Bytes budget = 0;
  std::optional<double> default_ms, tuned_ms, bound_ms;  // none: it does not run, or there is no bound
};

// The largest batch size, between two recorded ones and beyond, that is slowed down by no more than allowed.
struct BatchAnswer {
  double batch = 0, step_ms = 0, compute_ms = 0;
  Bytes peak_live_bytes = 0, evicted_bytes = 0;  // evicted_bytes: evicted or dropped, in the last step
  bool runs = false;
  bool is_allowed = false;
};
struct PairFindings {
  double first_batch = 0, second_batch = 0;
  double most_slowdown = 0;
  std::optional<BatchAnswer> best;   // none: no batch is acceptable
  std::optional<BatchAnswer> whole;  // the largest that needs no swapping at all
  std::vector<BatchAnswer> asked;    // in order of batch size
  bool is_limit_of_search = false;   // larger ones were not tried
};

struct TuneFindings {
  std::string trace;
  const simulator::Profile* profile = nullptr;
  Bytes budget = 0, peak_live_bytes = 0;
  std::string budget_text;  // "25.0 MiB = 40% of the peak 63.8 MiB"
  bool exact = false;       // the library was told what each operator reads and writes, and may have recomputed
  bool is_split = false;    // operators were split for the budget, and all figures but compute_ms are of these parts
  std::string split_told;   // "" for none
  nlohmann::ordered_json split = nullptr;
  bool runs = false;    // if false, only least_budget is valid
  std::string why_not;  // if it does not run
  bool steps_repeat = true;
  Knobs defaults, best;
  std::optional<Measured> with_defaults;  // none: out of memory with the default settings
  Measured with_best;
  std::vector<ChangedKnob> changed;
  double compute_ms = 0;
  std::optional<double> bound_ms;
  std::optional<Bytes> least_budget;
  std::string least_because;            // why it cannot be less
  std::optional<Bytes> least_possible;  // with any executor
  std::optional<double> trusting_ms;    // with trusting safety, if that was not allowed and is faster
  std::vector<CurvePoint> curve;
  std::size_t replays = 0, steps = 0;  // number of replays, and steps of each
  std::optional<PairFindings> pair;
};

// In a form that `config check` accepts.
std::string settings_file(const TuneFindings& found);
void print_findings(const TuneFindings& found, std::FILE* out);
void print_findings_json(const TuneFindings& found);

// "learned", "1MiB", "60%": the value of the knob named `key`, as in a settings file.
std::string knob_text(const Knobs& knobs, const std::string& key);
// Sets the knob named `key` to its value in `from`.
void copy_knob(const Knobs& from, const std::string& key, Knobs* to);
const std::vector<std::string>& knob_keys();

}  // namespace thermocline
