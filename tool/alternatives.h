// SPDX-License-Identifier: Apache-2.0
// The flag --alternatives: which alternatives a command takes where a trace's operators have some (trace/choices.h).
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trace/choice_plan.h"
#include "trace/read.h"

namespace thermocline {

inline constexpr const char* kRecordedAlternatives = "recorded";
inline constexpr const char* kAutoAlternatives = "auto";

// The terms by which mode auto chooses.
struct ChoiceTerms {
  DeviceRates rates;
  Bytes budget;
  std::optional<StepPlanKind> plans;  // none: nothing can leave the device
  // Returns the milliseconds of a step; none: it runs out of memory, or the time is not known. A planned choice is
  // taken only if it is no slower than the recorded one.
  std::function<std::optional<double>(const Trace&)> step_ms;
};

class Alternatives {
 public:
  // Reads the file; prints errors and warnings. `mode`: recorded, auto, or the name of alternatives, which are taken
  // wherever a choice has one of this name. Without `may_choose`, auto is refused.
  bool read(const std::string& path, const std::string& mode, bool may_choose);

  const Trace& recorded() const { return family_.recorded(); }
  bool has_choices() const { return family_.has_choices(); }
  // False: an error has been printed.
  bool take(const ChoiceTerms& terms, Trace* out) const;
  // take() for modes that do not depend on the device.
  bool take(Trace* out) const;

 private:
  bool take_selection(const ChoiceSelection& selection, Trace* out) const;
  ChoiceSelection named() const;

  std::string path_, mode_;
  TraceFamily family_;
};

void add_alternatives_flag(CLI::App* command, std::string* mode, bool may_choose);

// "attention: flash in 8 of 12, math in 4"; "" for none.
std::string alternatives_text(const std::vector<TraceChoice>& all);
// Null for none.
nlohmann::ordered_json alternatives_json(const std::vector<TraceChoice>& all, const std::string& mode);

}  // namespace thermocline
