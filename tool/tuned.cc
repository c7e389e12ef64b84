// SPDX-License-Identifier: Apache-2.0
#include "tool/tuned.h"
#include "driver/printable.h"
#include "driver/quantity.h"
#include "tool/message.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "config/size.h"
#include "tool/json_text.h"

namespace thermocline {
namespace {

using nlohmann::ordered_json;

__attribute__((format(printf, 1, 2))) std::string text(const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return line;
}

// A setting may be better only for the steps before learning.
std::string compared(const KnobWorth& other, const Measured& best) {
  constexpr double kSame = 1.0005;
  if (other.step_ms > best.step_ms * kSame) {
    return text("%.2f ms, %.1f %% more", other.step_ms, (other.step_ms / best.step_ms - 1) * 100);
  }
  return text("as long a step; all replayed steps, with those before learning, %.1f %% more",
              (other.all_ms / best.all_ms - 1) * 100);
}

std::string percent_above(double value, double of) { return text("%.1f %%", (value / of - 1) * 100); }

// Lines about the settings found, for the file and for the terminal.
std::vector<std::string> summary(const TuneFindings& f) {
  std::vector<std::string> lines;
  const double step = f.with_best.step_ms;
  std::string line =
      text("a step         %.2f ms, %.3f x unlimited memory (%.2f ms)", step, step / f.compute_ms, f.compute_ms);
  lines.push_back(line);
  if (f.is_split) lines.push_back("in parts       " + f.split_told);
  if (!f.with_defaults) {
    lines.push_back("defaults       run out of memory");
  } else if (f.changed.empty()) {
    lines.push_back("defaults       are the best that was found");
  } else {
    lines.push_back("defaults       " + compared({f.with_defaults->step_ms, f.with_defaults->all_ms}, f.with_best));
  }
  if (f.best.recompute != Recompute::kOff) {
    const ReplayStep& last = f.with_best.last;
    lines.push_back("made again     " + quantity(last.recomputed_operations, "operator") +
                    text(" a step, in %.2f ms; ", static_cast<double>(last.recomputed_ns) * 1e-6) +
                    human_bytes(last.dropped_bytes) + " dropped, not copied");
  }
  if (f.bound_ms) {
    const bool is_below = step < *f.bound_ms;  // only with recomputing
    const std::string distance =
        is_below ? text("%.1f %% below", (1 - step / *f.bound_ms) * 100) : percent_above(step, *f.bound_ms) + " above";
    lines.push_back(text("at best        %.2f ms, whoever swaps%s (thermocline bound); this is %s", *f.bound_ms,
                         is_below ? " without recomputing" : "", distance.c_str()));
  }
  if (f.least_budget) {
    lines.push_back("least budget   " + human_bytes(*f.least_budget) + "; with 1 MiB less, " + f.least_because);
  }
  lines.push_back("host memory    " + human_bytes(f.with_best.peak_host_bytes) + " pinned at most");
  if (f.trusting_ms) {
    lines.push_back(
        text("safety         \"trusting\" would take %.2f ms: only for programs all of whose accesses are "
             "known (--allow-trusting)",
             *f.trusting_ms));
  }
  return lines;
}

std::string optional_ms(const std::optional<double>& ms, const char* none) {
  return ms ? text("%.2f ms", *ms) : std::string(none);
}

void print_curve(const TuneFindings& f, std::FILE* out) {
  if (f.curve.empty()) return;
  double longest = 0;
  for (const CurvePoint& point : f.curve) longest = std::max(longest, point.tuned_ms.value_or(0));
  std::fprintf(out, "\n  %10s %6s %12s %12s %12s  %s\n", "budget", "", "defaults", "tuned", "at best",
               "tuned, x unlimited");
  for (const CurvePoint& point : f.curve) {
    const double part = static_cast<double>(point.budget) / static_cast<double>(f.peak_live_bytes);
    std::string bar;
    if (point.tuned_ms) {
      bar = std::string(static_cast<std::size_t>(std::lround(*point.tuned_ms / longest * 30)), '#') +
            text(" %.2f", *point.tuned_ms / f.compute_ms);
    }
    std::fprintf(out, "  %10s %5.0f%% %12s %12s %12s  %s\n", human_bytes(point.budget).c_str(), part * 100,
                 optional_ms(point.default_ms, "no").c_str(), optional_ms(point.tuned_ms, "no").c_str(),
                 optional_ms(point.bound_ms, "-").c_str(), bar.c_str());
  }
}

void print_pair(const PairFindings& pair, std::FILE* out) {
  std::fprintf(out, "\n  %8s %12s %12s %10s\n", "batch", "peak", "step", "slowdown");
  for (const BatchAnswer& a : pair.asked) {
    std::fprintf(out, "  %8.0f %12s %12s %10s%s\n", a.batch, human_bytes(a.peak_live_bytes).c_str(),
                 a.runs ? text("%.2f ms", a.step_ms).c_str() : "no",
                 a.runs ? text("%.2fx", a.step_ms / a.compute_ms).c_str() : "-",
                 pair.best && pair.best->batch == a.batch ? "  <- largest within the limit" : "");
  }
  if (!pair.best) {
    std::fprintf(out, "No batch is slowed down by %.0f %% or less.\n", pair.most_slowdown * 100);
    return;
  }
  std::fprintf(out, "Largest batch with at most %.0f %% slowdown: %.0f%s", pair.most_slowdown * 100, pair.best->batch,
               pair.is_limit_of_search ? " (and nothing larger was tried)" : "");
  if (pair.whole) std::fprintf(out, "; without swapping: %.0f", pair.whole->batch);
  std::fprintf(out, ".\nBatches between and beyond %.0f and %.0f are the two recordings on a straight line.\n",
               pair.first_batch, pair.second_batch);
}

ordered_json or_null(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}
ordered_json or_null(const std::optional<Bytes>& value) { return value ? ordered_json(*value) : ordered_json(nullptr); }

ordered_json knobs_json(const Knobs& knobs) {
  ordered_json out = ordered_json::object();
  for (const std::string& key : knob_keys()) {
    const std::string value = knob_text(knobs, key);
    out[key] = value.empty() ? ordered_json(nullptr) : ordered_json(value);
  }
  return out;
}

std::string text_of(const Knobs& knobs, const std::string& key) {
  const std::string value = knob_text(knobs, key);
  return value.empty() ? "by the budget" : value;
}

ordered_json batch_json(const BatchAnswer& a) {
  return {{"batch", a.batch},
          {"peak_live_bytes", a.peak_live_bytes},
          {"steady_step_ms", a.runs ? ordered_json(a.step_ms) : ordered_json(nullptr)},
          {"compute_step_ms", a.compute_ms},
          {"slowdown", a.runs ? ordered_json(a.step_ms / a.compute_ms) : ordered_json(nullptr)},
          {"allowed", a.is_allowed}};
}

ordered_json pair_json(const PairFindings& pair) {
  ordered_json asked = ordered_json::array();
  for (const BatchAnswer& a : pair.asked) asked.push_back(batch_json(a));
  return {{"batches", {pair.first_batch, pair.second_batch}},
          {"most_slowdown", pair.most_slowdown},
          {"largest", pair.best ? batch_json(*pair.best) : ordered_json(nullptr)},
          {"largest_unswapped", pair.whole ? batch_json(*pair.whole) : ordered_json(nullptr)},
          {"searched_to_the_end", !pair.is_limit_of_search},
          {"asked", asked}};
}

}  // namespace

const std::vector<std::string>& knob_keys() {
  static const std::vector<std::string> keys = {"policy",    "safety",        "page_bytes", "min_offload_bytes",
                                                "low_water", "clean_reserve", "recompute"};
  return keys;
}

std::string knob_text(const Knobs& knobs, const std::string& key) {
  if (key == "policy") return knobs.policy->name;
  if (key == "safety") return knobs.safety == Safety::kStrict ? "strict" : "trusting";
  if (key == "page_bytes") return knobs.page_bytes == 0 ? "" : SizeSetting::of_bytes(knobs.page_bytes).text();
  if (key == "min_offload_bytes") return SizeSetting::of_bytes(knobs.min_offload_bytes).text();
  if (key == "recompute") return knobs.recompute == Recompute::kOff ? "off" : "auto";
  const unsigned percent = key == "low_water" ? knobs.low_water_percent : knobs.clean_reserve_percent;
  return std::to_string(percent) + "%";
}

void copy_knob(const Knobs& from, const std::string& key, Knobs* to) {
  if (key == "policy") to->policy = from.policy;
  if (key == "safety") to->safety = from.safety;
  if (key == "page_bytes") to->page_bytes = from.page_bytes;
  if (key == "min_offload_bytes") to->min_offload_bytes = from.min_offload_bytes;
  if (key == "recompute") to->recompute = from.recompute;
  if (key == "low_water") to->low_water_percent = from.low_water_percent;
  if (key == "clean_reserve") to->clean_reserve_percent = from.clean_reserve_percent;
}

std::string settings_file(const TuneFindings& f) {
  std::string out = "# Written by thermocline tune for " + printable(f.trace) + " on " + f.profile->name + " (" +
                    f.profile->title + ", simulated).\n# Every figure is of a replay through the library itself:\n#\n";
  for (const std::string& line : summary(f)) out += "#   " + line + "\n";
  out += "#\n# Found in " + quantity(f.replays, "replay") + ". To see it again:\n#   thermocline replay " +
         shell_word(f.trace) + " --device " + f.profile->name + " --steps " + std::to_string(f.steps) +
         (f.is_split ? " --split auto" : "") + (f.exact ? " --exact" : "") + " --config THIS_FILE\n";
  if (f.is_split)
    out += "# Only replays compute operators in parts: a running program needs the budget that it needs whole.\n";
  if (f.best.recompute != Recompute::kOff)
    out += "# A running program recomputes what kernels make whose PTX shows that they may run again.\n";
  out += "\n";
  out += "budget = \"" + SizeSetting::of_bytes(f.budget).text() + "\"  # " + f.budget_text + "\n";
  for (const std::string& key : knob_keys()) {
    // Unset, it is chosen by the budget.
    if (knob_text(f.best, key).empty() || (key == "recompute" && !f.exact)) continue;
    std::string line = key + " = \"" + knob_text(f.best, key) + "\"";
    const auto changed = std::ranges::find(f.changed, key, &ChangedKnob::key);
    line.resize(std::max<std::size_t>(line.size() + 2, 32), ' ');
    if (changed == f.changed.end()) {
      out += line + "# the default\n";
      continue;
    }
    out += line + "# the default, " + text_of(f.defaults, key) + ", ";
    out += changed->without ? "takes " + compared(*changed->without, f.with_best) + "\n" : "runs out of memory\n";
  }
  return out;
}

void print_findings(const TuneFindings& f, std::FILE* out) {
  std::fprintf(out, "%s on %s, budget %s\n", f.trace.c_str(), f.profile->name, f.budget_text.c_str());
  if (!f.runs) {
    std::fprintf(out, "  no settings make it run: %s\n", f.why_not.c_str());
    if (f.least_budget) {
      std::fprintf(out, "  least budget   %s; with 1 MiB less, %s\n", human_bytes(*f.least_budget).c_str(),
                   f.least_because.c_str());
    }
    if (f.is_split) std::fprintf(out, "  in parts       %s\n", f.split_told.c_str());
  } else {
    for (const std::string& line : summary(f)) std::fprintf(out, "  %s\n", line.c_str());
    for (const std::string& key : knob_keys()) {
      if (key == "recompute" && !f.exact) continue;
      const std::string value = text_of(f.best, key);
      const bool is_default = value == text_of(f.defaults, key);
      std::fprintf(out, "  %-20s %s\n", key.c_str(),
                   is_default ? value.c_str()
                              : text("%-10s instead of %s", value.c_str(), text_of(f.defaults, key).c_str()).c_str());
    }
  }
  print_curve(f, out);
  if (f.pair) print_pair(*f.pair, out);
}

void print_findings_json(const TuneFindings& f) {
  ordered_json curve = ordered_json::array(), changed = ordered_json::array();
  for (const CurvePoint& point : f.curve) {
    curve.push_back({{"budget_bytes", point.budget},
                     {"default_step_ms", or_null(point.default_ms)},
                     {"tuned_step_ms", or_null(point.tuned_ms)},
                     {"bound_ms", or_null(point.bound_ms)}});
  }
  for (const ChangedKnob& knob : f.changed) {
    changed.push_back(
        {{"key", knob.key},
         {"default", knob_text(f.defaults, knob.key)},
         {"step_ms_with_default", knob.without ? ordered_json(knob.without->step_ms) : ordered_json(nullptr)}});
  }
  const auto if_runs = [&f](auto value) { return f.runs ? ordered_json(value) : ordered_json(nullptr); };
  ordered_json out = {{"schema", "thermocline-tune/1"},
                      {"trace", f.trace},
                      {"device", f.profile->name},
                      {"outcome", f.runs ? "ok" : "out_of_memory"},
                      {"budget_bytes", f.budget},
                      {"peak_live_bytes", f.peak_live_bytes},
                      {"split", f.split},
                      {"settings", f.runs ? knobs_json(f.best) : ordered_json(nullptr)},
                      {"changed", changed},
                      {"steady_step_ms", if_runs(f.with_best.step_ms)},
                      {"default_step_ms", f.with_defaults ? ordered_json(f.with_defaults->step_ms) : ordered_json()},
                      {"compute_step_ms", f.compute_ms},
                      {"bound_ms", or_null(f.bound_ms)},
                      {"peak_host_bytes", if_runs(f.with_best.peak_host_bytes)},
                      {"least_budget_bytes", or_null(f.least_budget)},
                      {"least_budget_because", f.least_because},
                      {"least_possible_bytes", or_null(f.least_possible)},
                      {"recomputed_ms", if_runs(static_cast<double>(f.with_best.last.recomputed_ns) * 1e-6)},
                      {"recomputed_operations", if_runs(f.with_best.last.recomputed_operations)},
                      {"dropped_bytes", if_runs(f.with_best.last.dropped_bytes)},
                      {"trusting_step_ms", or_null(f.trusting_ms)},
                      {"steps_repeat", f.steps_repeat},
                      {"curve", curve},
                      {"replays", f.replays}};
  if (f.pair) out["pair"] = pair_json(*f.pair);
  std::puts(json_text(out).c_str());
}

}  // namespace thermocline
