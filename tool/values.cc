// SPDX-License-Identifier: Apache-2.0
#include "tool/values.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "config/option_table.h"
#include "config/suggest.h"
#include "simulator/profile.h"
#include "tool/message.h"
#include "trace/read.h"

namespace thermocline {
namespace {

constexpr unsigned kMostPercentOfATrace = 1000;

}  // namespace

std::optional<SizeSetting> parse_budget_flag(const std::string& text, const std::string& flag) {
  ParseError error;
  const auto size = parse_size(text, {.most_percent = kMostPercentOfATrace}, &error);
  if (!size) say(flag + ": " + error.message + did_you_mean(error.suggestion));
  return size;
}

const simulator::Profile* find_device_flag(const std::string& name, const std::string& flag) {
  if (simulator::is_profile_file(name)) {
    std::string why;
    const simulator::Profile* const profile = simulator::read_profile(name, &why);
    if (profile == nullptr) say(flag + ": " + why);
    return profile;
  }
  if (const simulator::Profile* profile = simulator::find_profile(name)) return profile;
  std::vector<std::string_view> names;
  for (const simulator::Profile& profile : simulator::profiles()) names.emplace_back(profile.name);
  say(flag + ": unknown device '" + name + "'" + did_you_mean(nearest_name(name, names)) +
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

bool read_trace_file(const std::string& path, Trace* out) {
  TraceError error;
  std::vector<std::string> warnings;
  if (!read_trace(path, out, &error, &warnings)) {
    say(error.text());
    return false;
  }
  if (!out->is_single_device) {
    say(path + ": the trace is of more than one device; this version takes one");
    return false;
  }
  for (const std::string& warning : warnings) say((path + ": note: ").append(warning));
  return true;
}

DeviceRates rates_of(const simulator::Profile& profile) {
  return {.flops_per_second = profile.fp32_flops.value,
          .memory_bytes_per_second = profile.memory_bandwidth.value,
          .link_to_device_bytes_per_second = profile.link_to_device.value,
          .link_to_host_bytes_per_second = profile.link_to_host.value,
          .launch_seconds = static_cast<double>(profile.launch.value) * 1e-9};
}

}  // namespace thermocline
