// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/driver_switches.h"

#include <array>
#include <charconv>
#include <utility>

namespace simulator {
namespace {

template <typename Number>
bool number(std::string_view text, Number least, Number most, Number* out) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *out);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() && *out >= least && *out <= most;
}

bool size(std::string_view text, Bytes* out) {
  unsigned shift = 0;
  for (const auto& [unit, bits] : {std::pair{"KiB", 10U}, {"MiB", 20U}, {"GiB", 30U}}) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(3);
    shift = bits;
  }
  if (!number(text, Bytes{0}, (Bytes{1} << 44) >> shift, out)) return false;
  *out <<= shift;
  return true;
}

template <typename Number>
bool optional_number(std::string_view text, Number least, Number most, std::optional<Number>* out) {
  Number value{};
  if (!number(text, least, most, &value)) return false;
  *out = value;
  return true;
}

bool optional_size(std::string_view text, std::optional<Bytes>* out) {
  Bytes bytes = 0;
  if (!size(text, &bytes)) return false;
  *out = bytes;
  return true;
}

// For switches with a single value.
bool word(std::string_view text, std::string_view expected, bool* out) {
  if (text != expected) return false;
  *out = true;
  return true;
}

template <void (*restrict_plan)(FaultPlan&)>
bool off(DriverSwitches& switches, std::string_view text) {
  if (text != "off") return false;
  switches.restrictions.push_back(restrict_plan);
  return true;
}

void no_virtual_memory(FaultPlan& plan) { plan.no_virtual_memory = true; }
void no_host_mapping(FaultPlan& plan) { plan.no_host_mappings = true; }
void no_pools(FaultPlan& plan) { plan.no_memory_pools = true; }
void no_param_info(FaultPlan& plan) { plan.without.insert({"cuFuncGetParamInfo", "cuKernelGetParamInfo"}); }
void no_batches(FaultPlan& plan) { plan.without.insert({"cuMemcpyBatchAsync", "cuMemcpy3DBatchAsync"}); }
void no_capture_mode(FaultPlan& plan) { plan.without.emplace("cuThreadExchangeStreamCaptureMode"); }
void no_stream_flags(FaultPlan& plan) { plan.without.emplace("cuStreamGetFlags"); }

bool set_version(DriverSwitches& switches, std::string_view text) {
  const std::size_t point = text.find('.');
  int major = 0, minor = 0;
  if (point == std::string_view::npos || !number(text.substr(0, point), 11, 13, &major) ||
      !number(text.substr(point + 1), 0, 9, &minor) || major * 1000 + minor * 10 > kDriverVersion) {
    return false;
  }
  switches.version = major * 1000 + minor * 10;
  return true;
}

bool set_granularity(DriverSwitches& switches, std::string_view text) {
  Bytes bytes = 0;
  if (!size(text, &bytes) || bytes < kPageBytes || (bytes & (bytes - 1)) != 0) return false;
  switches.granularity = bytes;
  return true;
}

bool set_alias(DriverSwitches& switches, std::string_view text) {
  if (text != "off" && text != "apart") return false;
  switches.alias = text == "off" ? Alias::kOff : Alias::kApart;
  return true;
}

constexpr std::uint64_t kMost = std::uint64_t{1} << 32;

struct Switch {
  const char* name;
  const char* values;
  bool (*set)(DriverSwitches& switches, std::string_view text);
};

using S = DriverSwitches;
using Text = std::string_view;

constexpr std::array kSwitches = {
    Switch{"queue", "a number of operations up to 2^32; 0: no limit",
           [](S& s, Text t) { return optional_number(t, std::uint64_t{0}, kMost, &s.queue); }},
    Switch{"lazy_load", "a size, such as 4MiB; 0: none", [](S& s, Text t) { return optional_size(t, &s.lazy_load); }},
    Switch{"alias", "off or apart", set_alias},
    Switch{"remap", "forgets", [](S& s, Text t) { return word(t, "forgets", &s.remap_forgets); }},
    Switch{"map", "waits", [](S& s, Text t) { return word(t, "waits", &s.map_waits); }},
    Switch{"access", "one", [](S& s, Text t) { return word(t, "one", &s.access_one); }},
    Switch{"unmap", "waits or one",
           [](S& s, Text t) { return word(t, "waits", &s.unmap_waits) || word(t, "one", &s.unmap_one); }},
    Switch{"handle_bytes", "a size, such as 64KiB", [](S& s, Text t) { return size(t, &s.handle_bytes); }},
    Switch{"handles", "a number of handles up to 2^32",
           [](S& s, Text t) { return optional_number(t, std::uint64_t{1}, kMost, &s.handles); }},
    Switch{"pinned", "a size, such as 1GiB", [](S& s, Text t) { return optional_size(t, &s.pinned); }},
    Switch{"host_free", "returns", [](S& s, Text t) { return word(t, "returns", &s.host_free_returns); }},
    Switch{"granularity", "a power of two of at least 2MiB", set_granularity},
    Switch{"address_bits", "a number of bits from 30 to 47",
           [](S& s, Text t) { return optional_number(t, 30U, 47U, &s.address_bits); }},
    Switch{"version", "a driver version from 11.0 to 13.0", set_version},
    Switch{"virtual_memory", "off", off<no_virtual_memory>},
    Switch{"host_mapping", "off", off<no_host_mapping>},
    Switch{"pools", "off", off<no_pools>},
    Switch{"param_info", "off", off<no_param_info>},
    Switch{"batch", "off", off<no_batches>},
    Switch{"capture_mode", "off", off<no_capture_mode>},
    Switch{"stream_flags", "off", off<no_stream_flags>},
};

std::string known_names() {
  std::string known;
  for (const Switch& one : kSwitches) known += (known.empty() ? "" : ", ") + std::string(one.name);
  return known;
}

std::string apply(std::string_view statement, DriverSwitches& switches) {
  const std::size_t equals = statement.find('=');
  const std::string name(statement.substr(0, equals));
  for (const Switch& one : kSwitches) {
    if (name != one.name) continue;
    const std::string_view value = equals == std::string_view::npos ? "" : statement.substr(equals + 1);
    if (one.set(switches, value)) return {};
    return "switches of the driver: " + std::string(statement) + " does not hold: expected " + name + "= and " +
           one.values;
  }
  return "switches of the driver: unknown switch '" + name + "'; known are " + known_names();
}

}  // namespace

void DriverSwitches::add_to(FaultPlan* plan) const {
  for (const auto restriction : restrictions) restriction(*plan);
  plan->driver_version = version.value_or(plan->driver_version);
  if (granularity) plan->granularity = granularity;
  if (address_bits) plan->address_bits = address_bits;
}

std::string read_driver_switches(std::string_view text, DriverSwitches* out) {
  DriverSwitches switches;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    if (std::string problem = apply(text.substr(0, comma), switches); !problem.empty()) return problem;
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  *out = std::move(switches);
  return {};
}

}  // namespace simulator
