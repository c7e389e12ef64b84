// SPDX-License-Identifier: Apache-2.0
#include "tool/values.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "config/option_table.h"
#include "config/suggest.h"
#include "driver/page_size.h"
#include "driver/quantity.h"
#include "simulator/profile.h"
#include "tool/message.h"
#include "trace/read.h"

namespace thermocline {
namespace {

constexpr unsigned kMostPercentOfAPeak = 1000;
constexpr std::string_view kOfPeak = "peak", kOfDevice = "device";

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Removes the last word from a text such as "60% Peak " and returns what the percentage is of.
std::optional<Whole> take_whole(std::string* text) {
  const std::size_t last = text->find_last_not_of(" \t");
  const std::string trimmed = lower(text->substr(0, last + 1));
  for (const auto& [word, whole] : {std::pair(kOfPeak, Whole::kPeak), std::pair(kOfDevice, Whole::kDevice)}) {
    if (!trimmed.ends_with(word)) continue;
    const std::string rest = text->substr(0, trimmed.size() - word.size());
    if (rest.find('%') == std::string::npos) continue;
    *text = rest;
    return whole;
  }
  return std::nullopt;
}

// The device that is meant: "a100-40g' or 'a100-80g" for "a100", "rtx-4090" for "4090". First names that begin with the
// text, then names with a similar spelling, then names that contain it.
std::string meant_device(const std::string& text) {
  std::string begin, within;
  std::vector<std::string_view> names;
  const auto add = [](std::string_view name, std::string* to) {
    *to += (to->empty() ? "" : "' or '") + std::string(name);
  };
  for (const simulator::Profile& profile : simulator::profiles()) {
    const std::string_view name = names.emplace_back(profile.name);
    if (text.size() >= 2 && name.starts_with(text)) add(name, &begin);
    if (text.size() >= 2 && name.find(text) != std::string_view::npos) add(name, &within);
  }
  if (!begin.empty()) return begin;
  const std::string nearest = nearest_name(text, names);
  return nearest.empty() ? within : nearest;
}

// `read` makes `trace`.
template <class Read>
bool read_and_say(const std::string& name, const Trace& trace, const Read& read) {
  if (name.empty()) {
    say("the trace has no name");
    return false;
  }
  const std::string path = input_path(name);
  if (name == "-" && isatty(STDIN_FILENO) == 1) say("note: the trace is read from this terminal; Ctrl-C ends that");
  TraceError error;
  std::vector<std::string> warnings;
  if (!read(path, &error, &warnings)) {
    say_trace_error(error);
    return false;
  }
  if (!trace.is_single_device) {
    say(path + ": the trace is of more than one device; this version takes one");
    return false;
  }
  for (const std::string& warning : warnings) say((path + ": note: ").append(warning));
  return true;
}

}  // namespace

std::string Budget::text() const {
  if (!size.is_percent()) return size.text();
  return size.text() + std::string(of == Whole::kPeak ? kOfPeak : kOfDevice);
}

std::string Budget::text(Bytes taken, Bytes device_bytes, Bytes peak_bytes) const {
  const std::string peak = "the peak " + human_bytes(peak_bytes);
  if (!size.is_percent()) return human_bytes(taken) + " for " + peak;
  if (of == Whole::kPeak) return human_bytes(taken) + " = " + size.text() + " of " + peak;
  return human_bytes(taken) + " = " + size.text() + " of the device's " + human_bytes(device_bytes) + ", for " + peak;
}

Budget whole_device() { return {.size = SizeSetting::of_percent_millionths(100'000'000), .of = Whole::kDevice}; }

std::optional<Budget> parse_budget_flag(const std::string& text, const std::string& flag, Whole bare) {
  std::string number = text;
  const Whole of = take_whole(&number).value_or(bare);
  ParseError error;
  const auto size = parse_size(number, {.most_percent = of == Whole::kPeak ? kMostPercentOfAPeak : 100}, &error);
  if (!size) {
    say(flag + ": " + error.message + did_you_mean(error.suggestion));
    return std::nullopt;
  }
  remark_on_bare_number(text, flag);
  return Budget{.size = *size, .of = of};
}

std::optional<Bytes> parse_bytes_flag(const std::string& text, const std::string& flag) {
  ParseError error;
  const auto size = parse_size(text, {.allow_percent = false}, &error);
  if (!size) {
    say(flag + ": " + error.message + did_you_mean(error.suggestion));
    return std::nullopt;
  }
  return size->resolve(0);
}

void remark_on_bare_number(const std::string& text, const std::string& flag) {
  const ParseError doubt = doubt_about_size(text);
  if (!doubt.message.empty()) say("note: " + flag + ": " + doubt.message + did_you_mean(doubt.suggestion));
}

const simulator::Profile* find_device_flag(const std::string& name, const std::string& flag) {
  if (simulator::is_profile_file(name)) {
    std::string why;
    const simulator::Profile* const profile = simulator::read_profile(name, &why);
    if (profile == nullptr) say(flag + ": " + why);
    return profile;
  }
  const std::string small = lower(name);
  if (const simulator::Profile* profile = simulator::find_profile(small)) return profile;
  say(flag + ": unknown device '" + name + "'" + did_you_mean(meant_device(small)) +
      " ('thermocline devices' lists them)");
  return nullptr;
}

bool parse_setting_flag(const std::string& key, const std::string& text, const std::string& flag, Settings* settings) {
  const Option& option = *find_option(key);
  Value value;
  ParseError error;
  if (!parse_value(option, text, &value, &error)) {
    say(flag + ": " + error.message + did_you_mean(error.suggestion));
    return false;
  }
  option.store(*settings, value);
  return true;
}

std::string input_path(const std::string& name) { return name == "-" ? "/dev/stdin" : name; }

void say_trace_error(const TraceError& error) {
  const bool is_trace = !error.reason.starts_with("not a trace");
  say(error.text() + (is_trace ? "" : "; a trace is made by 'thermocline record -o TRACE -- PROGRAM'"));
}

bool read_trace_file(const std::string& name, Trace* out) {
  const auto read = [out](const std::string& path, TraceError* error, std::vector<std::string>* warnings) {
    if (!read_trace(path, out, error, warnings)) return false;
    if (!out->choices.empty()) {
      warnings->push_back("its operators have alternatives (" + quantity(out->choices.size(), "choice") +
                          "); what was recorded is taken");
    }
    return true;
  };
  return read_and_say(name, *out, read);
}

bool read_trace_family(const std::string& name, TraceFamily* out) {
  const auto read = [out](const std::string& path, TraceError* error, std::vector<std::string>* warnings) {
    return out->read(path, error, warnings);
  };
  return read_and_say(name, out->recorded(), read);
}

DeviceRates rates_of(const simulator::Profile& profile) {
  return {.flops_per_second = profile.fp32_flops.value,
          .memory_bytes_per_second = profile.memory_bandwidth.value,
          .link_to_device_bytes_per_second = profile.link_to_device.value,
          .link_to_host_bytes_per_second = profile.link_to_host.value,
          .launch_seconds = static_cast<double>(profile.launch.value) * 1e-9};
}

}  // namespace thermocline
