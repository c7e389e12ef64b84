// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/settings.h"

#include <charconv>
#include <cstdlib>

#include "simulator/settings_check.h"

namespace simulator {
namespace {

template <typename Number>
std::optional<Number> parse(std::string_view text) {
  Number number{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

using Setter = bool (*)(Settings&, std::string_view);

// Parses one of two words.
bool choose(std::string_view value, std::string_view yes, std::string_view no, bool& out) {
  if (value != yes && value != no) return false;
  out = value == yes;
  return true;
}

bool set_device(Settings& settings, std::string_view value) {
  const Profile* const profile = find_profile(value);
  if (profile != nullptr) settings.profile = profile;
  return profile != nullptr;
}

bool set_devices(Settings& settings, std::string_view value) {
  const auto devices = parse<unsigned>(value);
  if (!devices || *devices < 1 || *devices > kMostDevices) return false;
  settings.devices = static_cast<DeviceId>(*devices);
  return true;
}

bool set_seed(Settings& settings, std::string_view value) {
  const auto seed = parse<std::uint64_t>(value);
  if (!seed && value != "time") return false;
  settings.seed = seed;
  return true;
}

bool set_link_scale(Settings& settings, std::string_view value) {
  const auto scale = parse<double>(value);
  if (!scale || !(*scale > 0) || *scale > 1e6) return false;
  settings.link_scale = *scale;
  return true;
}

bool set_memory_bytes(Settings& settings, std::string_view value) {
  const auto bytes = parse<std::uint64_t>(value);
  if (!bytes || *bytes < kPageBytes || *bytes > Bytes{1} << 44) return false;
  settings.memory_bytes = bytes;
  return true;
}

bool set_bytes(Bytes& out, std::string_view value) {
  const auto bytes = parse<std::uint64_t>(value);
  if (!bytes || *bytes > Bytes{1} << 44) return false;
  out = *bytes;
  return true;
}

// Two numbers of microseconds with a dash between them, or "off".
bool set_kernel_time(Settings& settings, std::string_view value) {
  if (value == "off") {
    settings.kernel_low = settings.kernel_high = 0;
    return true;
  }
  const std::size_t line = value.find('-');
  if (line == std::string_view::npos) return false;
  const auto low = parse<double>(value.substr(0, line));
  const auto high = parse<double>(value.substr(line + 1));
  if (!low || !high || !(*low >= 0.001) || !(*high >= *low) || *high > 1e9) return false;
  settings.kernel_low = *low;
  settings.kernel_high = *high;
  return true;
}

bool set_kernel_steps(Settings& settings, std::string_view value) {
  const auto steps = parse<std::uint64_t>(value);
  if (!steps || *steps == 0 || *steps > std::uint64_t{1} << 62) return false;
  settings.kernel_steps = *steps;
  return true;
}

bool set_cores(Settings& settings, std::string_view value) {
  const auto cores = parse<unsigned>(value);
  if (!cores || *cores == 0 || *cores > 1024) return false;
  settings.cores = *cores;
  return true;
}

bool set_queue_limit(Settings& settings, std::string_view value) {
  const auto operations = parse<std::uint64_t>(value);
  if (!operations || *operations > std::uint64_t{1} << 32) return false;
  settings.queue_limit = *operations;
  return true;
}

bool set_blocked_timeout(Settings& settings, std::string_view value) {
  const auto seconds = parse<double>(value);
  if (!seconds || !(*seconds > 0) || *seconds > 1e6) return false;
  settings.blocked_timeout = *seconds;
  return true;
}

bool set_check(Settings& settings, std::string_view value) {
  if (value != "0" && value != "1" && value != "strict") return false;
  settings.check = value == "0" ? Checking::kOff : value == "1" ? Checking::kOn : Checking::kStrict;
  return true;
}

struct Key {
  const char* name;
  const char* variable;
  const char* expected;
  Setter set;
};

constexpr Key kKeys[] = {
    {"device", "THERMOCLINE_SIMULATE_DEVICE", "the name of a device profile, such as reference", set_device},
    {"memory", "THERMOCLINE_SIMULATE_MEMORY", "real or tagged",
     [](Settings& s, std::string_view v) { return choose(v, "tagged", "real", s.tagged); }},
    {"seed", "THERMOCLINE_SIMULATE_SEED", "a number, or time", set_seed},
    {"progress", "THERMOCLINE_SIMULATE_PROGRESS", "on or off",
     [](Settings& s, std::string_view v) { return choose(v, "on", "off", s.progress); }},
    {"link-scale", "THERMOCLINE_SIMULATE_LINK_SCALE", "a factor above 0", set_link_scale},
    {"memory-bytes", "THERMOCLINE_SIMULATE_MEMORY_BYTES", "a number of bytes from 2 MiB to 16 TiB", set_memory_bytes},
    {"others-bytes", "THERMOCLINE_SIMULATE_OTHERS_BYTES", "a number of bytes up to 16 TiB",
     [](Settings& s, std::string_view v) { return set_bytes(s.others, v); }},
    {"lazy-loading", "THERMOCLINE_SIMULATE_LAZY_LOADING", "a number of bytes up to 16 TiB; 0: none",
     [](Settings& s, std::string_view v) { return set_bytes(s.lazy_loading, v); }},
    {"kernels", "THERMOCLINE_SIMULATE_KERNELS", "real or made-up",
     [](Settings& s, std::string_view v) { return choose(v, "made-up", "real", s.made_up_kernels); }},
    {"kernel-steps", "THERMOCLINE_SIMULATE_KERNEL_STEPS", "a number of instructions above 0", set_kernel_steps},
    {"cores", "THERMOCLINE_SIMULATE_CORES", "a number of cores from 1 to 1024", set_cores},
    {"rate", "THERMOCLINE_SIMULATE_RATE", "fp32 or tensor",
     [](Settings& s, std::string_view v) { return choose(v, "tensor", "fp32", s.tensor_rate); }},
    {"stats", "THERMOCLINE_SIMULATE_STATS", "1 or 0",
     [](Settings& s, std::string_view v) { return choose(v, "1", "0", s.stats); }},
    {"kernel-time", "THERMOCLINE_SIMULATE_KERNEL_TIME", "two numbers of microseconds, such as 5-50000, or off",
     set_kernel_time},
    {"check", "THERMOCLINE_SIMULATE_CHECK", "0, 1 or strict", set_check},
    {"timeline", "THERMOCLINE_SIMULATE_TIMELINE", "a file",
     [](Settings& s, std::string_view v) {
       s.timeline = v;
       return true;
     }},
    {"devices", "THERMOCLINE_SIMULATE_DEVICES", "a number of devices from 1 to 8", set_devices},
    {"queue-limit", "THERMOCLINE_SIMULATE_QUEUE_LIMIT", "a number of operations up to 2^32; 0: no limit",
     set_queue_limit},
    {"blocked_timeout", "THERMOCLINE_SIMULATE_BLOCKED_TIMEOUT", "a number of seconds, such as 0.5",
     set_blocked_timeout},
    {"faults", "THERMOCLINE_SIMULATE_FAULTS", "", nullptr},
    {"driver", "THERMOCLINE_SIMULATE_DRIVER", "", nullptr},
};

std::string complaint(std::string_view name, std::string_view value, std::string_view expected) {
  return std::string(name) + "=" + std::string(value) + " does not hold: expected " + std::string(expected);
}

// Fault plans and driver switches make their own error messages.
std::string apply(const Key& key, std::string_view name, std::string_view value, Settings& settings) {
  if (key.set != nullptr) return key.set(settings, value) ? std::string() : complaint(name, value, key.expected);
  return std::string_view(key.name) == "driver" ? read_driver_switches(value, &settings.driver)
                                                : read_fault_plan(value, &settings.faults);
}

}  // namespace

std::string Settings::set(std::string_view key, std::string_view value) {
  std::string known;
  for (const Key& entry : kKeys) {
    if (key == entry.name) return apply(entry, key, value, *this);
    known += std::string(known.empty() ? "" : ", ") + entry.name;
  }
  return "unknown key " + std::string(key) + "; known are " + known;
}

std::string Settings::set_from_environment() {
  for (const Key& entry : kKeys) {
    const char* const value = std::getenv(entry.variable);
    if (value == nullptr || *value == '\0') continue;
    if (std::string wrong = apply(entry, entry.variable, value, *this); !wrong.empty()) return wrong;
  }
  return {};
}

std::vector<std::string_view> setting_variables() {
  std::vector<std::string_view> names;
  for (const Key& entry : kKeys) names.emplace_back(entry.variable);
  return names;
}

std::string setting_problem(std::string_view variable, std::string_view value) {
  Settings settings;
  for (const Key& entry : kKeys) {
    if (variable != entry.variable || value.empty()) continue;
    const std::string problem = apply(entry, variable, value, settings);
    return problem.empty() || entry.set != nullptr ? problem : std::string(variable) + ": " + problem;
  }
  return {};
}

void Settings::apply_driver() {
  queue_limit = driver.queue.value_or(queue_limit);
  lazy_loading = driver.lazy_load.value_or(lazy_loading);
  driver.add_to(&faults);
}

}  // namespace simulator
