// SPDX-License-Identifier: Apache-2.0
#include "tool/alternatives.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "config/suggest.h"
#include "tool/message.h"
#include "tool/values.h"

namespace thermocline {
namespace {

std::vector<std::string_view> names_of(const Trace& trace) {
  std::vector<std::string_view> names;
  for (const TraceChoice& choice : trace.choices) {
    for (const std::string& name : choice.alternatives) {
      if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
    }
  }
  return names;
}

}  // namespace

bool Alternatives::read(const std::string& path, const std::string& mode, bool may_choose) {
  path_ = path;
  mode_ = mode;
  if (!read_trace_family(path, &family_)) return false;
  const std::vector<std::string_view> names = names_of(recorded());
  std::string known = may_choose ? "recorded, auto" : "recorded";
  for (const std::string_view name : names) known.append(", ").append(name);
  if (mode == kRecordedAlternatives || (mode == kAutoAlternatives && may_choose)) return true;
  if (std::ranges::find(names, mode) != names.end()) return true;
  if (!has_choices()) {
    say(path + ": no operator of this trace has alternatives, so --alternatives '" + mode + "' is not known");
  } else if (mode == kAutoAlternatives) {
    say("--alternatives: 'auto' depends on what is replayed; known are " + known);
  } else {
    say("--alternatives: no choice of the trace has '" + mode + "'; known are " + known +
        did_you_mean(nearest_name(mode, names)));
  }
  return false;
}

ChoiceSelection Alternatives::named() const {
  ChoiceSelection selection;
  for (const TraceChoice& choice : recorded().choices) {
    const auto at = std::ranges::find(choice.alternatives, mode_);
    selection.push_back(at == choice.alternatives.end() ? 0
                                                        : static_cast<std::uint32_t>(at - choice.alternatives.begin()));
  }
  return selection;
}

bool Alternatives::take_selection(const ChoiceSelection& selection, Trace* out) const {
  TraceError error;
  if (family_.take(selection, out, &error)) return true;
  say(error.text());
  return false;
}

bool Alternatives::take(Trace* out) const { return take_selection(named(), out); }

bool Alternatives::take(const ChoiceTerms& terms, Trace* out) const {
  if (mode_ != kAutoAlternatives || !has_choices()) return take(out);
  const ChoicePlan plan = choose_alternatives(family_, terms.rates, terms.budget, terms.plans);
  if (!take_selection(plan.selection, out)) return false;
  const bool is_recorded = std::ranges::all_of(plan.selection, [](std::uint32_t taken) { return taken == 0; });
  if (is_recorded) return true;
  const std::optional<double> ms = terms.step_ms(*out), recorded_ms = terms.step_ms(recorded());
  if (recorded_ms && (!ms || *recorded_ms < *ms)) *out = recorded();
  return true;
}

void add_alternatives_flag(CLI::App* command, std::string* mode, bool may_choose) {
  command->add_option("--alternatives", *mode,
                      std::string("where operators of the trace have alternatives: recorded, ") +
                          (may_choose ? "auto (what the plan finds fastest for device and budget), " : "") +
                          "or the name of those to take (default: recorded)");
}

std::string alternatives_text(const std::vector<TraceChoice>& all) {
  // The number of choices by name and alternative.
  std::map<std::string, std::map<std::string, std::size_t>> counts;
  std::map<std::string, std::size_t> sums;
  for (const TraceChoice& choice : all) {
    ++counts[choice.name][choice.alternatives[choice.chosen]];
    ++sums[choice.name];
  }
  std::string text;
  for (const auto& [name, by] : counts) {
    text += (text.empty() ? "" : "; ") + name + ":";
    const char* before = " ";
    for (const auto& [alternative, count] : by) {
      text += before + alternative + " in " + std::to_string(count);
      if (before[0] == ' ') text += " of " + std::to_string(sums[name]);
      before = ", ";
    }
  }
  return text;
}

nlohmann::ordered_json alternatives_json(const std::vector<TraceChoice>& all, const std::string& mode) {
  if (all.empty()) return nullptr;
  nlohmann::ordered_json choices = nlohmann::ordered_json::array();
  for (const TraceChoice& choice : all) {
    choices.push_back({{"choice", choice.id},
                       {"name", choice.name},
                       {"taken", choice.alternatives[choice.chosen]},
                       {"recorded", choice.alternatives[0]}});
  }
  return {{"mode", mode}, {"choices", choices}};
}

}  // namespace thermocline
