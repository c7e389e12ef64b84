// SPDX-License-Identifier: Apache-2.0
// What `thermocline tune` found, and how it is told: a commented settings file, a table with the curve of step time
// over budget, and one JSON object.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "driver/units.h"
#include "simulator/profile.h"
#include "tool/replay_meter.h"
#include "trace/tuning.h"

namespace thermocline {

// A setting that is not the default, and the step with it put back; none: the program does not run then.
struct ChangedKnob {
  std::string key;
  std::optional<KnobWorth> without;
};

struct CurvePoint {
  Bytes budget = 0;
  std::optional<double> default_ms, tuned_ms, bound_ms;  // none: it does not run; or there is no bound
};

// The largest batch, between two recorded ones and beyond, that is slowed down no more than allowed.
struct BatchAnswer {
  double batch = 0, step_ms = 0, compute_ms = 0;
  Bytes peak_live_bytes = 0, evicted_bytes = 0;  // the latter in the last step
  bool runs = false;
  bool is_allowed = false;
};
struct PairFindings {
  double first_batch = 0, second_batch = 0;
  double most_slowdown = 0;
  std::optional<BatchAnswer> best;   // none: not one batch does
  std::optional<BatchAnswer> whole;  // the largest that needs no swapping at all
  std::vector<BatchAnswer> asked;    // in order of batch
  bool is_limit_of_search = false;   // larger ones were not asked
};

struct Findings {
  std::string trace;
  const simulator::Profile* profile = nullptr;
  Bytes budget = 0, peak_live_bytes = 0;
  std::string budget_told;  // "25.0 MiB = 40% of the peak 63.8 MiB"
  bool runs = false;        // else nothing but least_budget counts
  std::string why_not;      // when not
  bool steps_repeat = true;
  Knobs defaults, best;
  std::optional<Measured> with_defaults;  // none: they run out of memory
  Measured with_best;
  std::vector<ChangedKnob> changed;
  double compute_ms = 0;
  std::optional<double> bound_ms;
  std::optional<Bytes> least_budget;
  std::string least_because;            // why not less
  std::optional<Bytes> least_possible;  // with any executor
  std::optional<double> trusting_ms;    // what trusting safety would give, where it was not allowed and is faster
  std::vector<CurvePoint> curve;
  std::size_t replays = 0, steps = 0;  // the latter of each replay
  std::optional<PairFindings> pair;
};

// As `config check` accepts it.
std::string settings_file(const Findings& found);
void print_findings(const Findings& found, std::FILE* out);
void print_findings_json(const Findings& found);

// "learned", "1MiB", "60%": the knob named `key`, as a settings file says it.
std::string knob_text(const Knobs& knobs, const std::string& key);
// Puts the knob named `key` to what it is in `from`.
void copy_knob(const Knobs& from, const std::string& key, Knobs* to);
const std::vector<std::string>& knob_keys();

}  // namespace thermocline
