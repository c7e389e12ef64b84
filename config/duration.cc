// SPDX-License-Identifier: Apache-2.0
#include "config/duration.h"

#include <charconv>
#include <system_error>

namespace thermocline {
namespace {

struct Unit {
  std::string_view name;
  Duration::rep milliseconds;
};
// In descending order.
constexpr Unit kUnits[] = {{"h", 3'600'000}, {"min", 60'000}, {"s", 1000}, {"ms", 1}};
constexpr Duration::rep kMost = Duration::rep{1000} * 3'600'000;

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<Duration> failed(ParseError* error, std::string message, std::string suggestion = "") {
  *error = {std::move(message), std::move(suggestion)};
  return std::nullopt;
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view given, ParseError* error) {
  const std::string quoted = "'" + std::string(given) + "'";
  const std::string_view text = without_spaces(given);
  if (text == "off") return Duration(0);
  Duration::rep number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code == std::errc::result_out_of_range) return failed(error, quoted + " is too long");
  if (code != std::errc() || number < 0) {
    return failed(error, quoted + " is no duration; write for example 1s, 250ms or off");
  }
  const std::string_view unit = without_spaces(text.substr(static_cast<std::size_t>(end - text.data())));
  if (number == 0 && unit.empty()) return Duration(0);
  if (unit.empty()) return failed(error, quoted + " has no unit; units are ms, s, min and h", std::string(text) + "s");
  for (const Unit& known : kUnits) {
    if (unit != known.name) continue;
    if (number > kMost / known.milliseconds) return failed(error, quoted + " is too long");
    return Duration(number * known.milliseconds);
  }
  return failed(error, quoted + " has the unknown unit '" + std::string(unit) + "'; units are ms, s, min and h");
}

std::string duration_text(Duration duration) {
  if (duration.count() == 0) return "off";
  for (const Unit& unit : kUnits) {
    if (duration.count() % unit.milliseconds == 0) {
      return std::to_string(duration.count() / unit.milliseconds) + std::string(unit.name);
    }
  }
  return "";
}

}  // namespace thermocline
