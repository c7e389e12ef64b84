// SPDX-License-Identifier: Apache-2.0
// Measures a recorded program under given settings on a device, by replaying it through the library; each combination
// of settings and budget only once. For `tune`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "simulator/profile.h"
#include "trace/replay.h"
#include "trace/tuning.h"

namespace thermocline {

struct Measured {
  bool runs = false;
  std::string why_not;  // a short reason, if memory ran out
  double step_ms = 0;   // the step time of `replay` (SteadySteps)
  double all_ms = 0;
  Bytes peak_host_bytes = 0;
  ReplayStep last;  // step
  std::uint64_t checksum = 0, races = 0;
};

class ReplayMeter {
 public:
  static constexpr std::size_t kUsualSteps = 8;

  // `whole`: the same program before its operators were split (trace/split.h). `steps`: how many to replay; unset: it
  // chooses (choose_steps). `exact`: the library is told what each operator reads and writes. The other arguments must
  // outlive the meter. It can be used if failure() is empty: the requested steps may be impossible.
  ReplayMeter(const Trace& trace, const Trace& whole, const simulator::Profile& profile, const std::string& simulator,
              std::optional<std::size_t> steps, bool exact);

  // Null, with the reason in failure(), if the device fails for another reason than memory.
  const Measured* measure(const Knobs& knobs, Bytes budget);
  // measure() with race detection, in adversarial order `seed`; the result is not remembered.
  const Measured* measure_checked(const Knobs& knobs, Bytes budget, std::uint64_t seed);
  // With more memory than the program can use, and no operator split.
  const Measured* unlimited();

  const std::string& failure() const { return failure_; }
  std::size_t replays() const { return replays_; }
  std::size_t steps() const { return program_.steps; }
  bool steps_repeat() const { return repeats_; }

 private:
  using Key = std::tuple<const PolicyEntry*, Safety, Bytes, Bytes, unsigned, unsigned, Recompute, Bytes>;

  ReplayOptions options_of(const Knobs& knobs, Bytes budget) const;
  bool run(const ReplayOptions& options, Measured* out) { return run(trace_, program_, options, out); }
  bool run(const Trace& trace, const StepProgram& program, const ReplayOptions& options, Measured* out);

  const Trace& trace_;
  const Trace& whole_;
  const simulator::Profile& profile_;
  const std::string& simulator_;
  StepProgram program_, whole_program_;
  bool repeats_, exact_;
  std::map<Key, Measured> known_;
  Measured checked_;
  std::optional<Measured> unlimited_;
  std::string failure_;
  std::size_t replays_ = 0;
};

}  // namespace thermocline
