// SPDX-License-Identifier: Apache-2.0
#include "tool/number_option.h"

#include <charconv>
#include <optional>
#include <string_view>

namespace thermocline {
namespace {

// Nothing unless all of the text is a number in decimal digits.
template <class Number, class... Format>
std::optional<Number> decimal(std::string_view text, Format... format) {
  Number value{};
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value, format...);
  return error == std::errc() && at == end ? std::optional(value) : std::nullopt;
}

std::string refusal(const std::string& text, const char* kind, const std::string& least, const std::string& most) {
  return "'" + text + "' is not a " + kind + " from " + least + " to " + most;
}

}  // namespace

CLI::Option* read_in(CountRange range, CLI::Option* option) {
  const std::string least = std::to_string(range.least), most = std::to_string(range.most);
  const auto read = [=](std::string& text) -> std::string {
    const std::optional<std::uint64_t> value = decimal<std::uint64_t>(text);
    if (!value || *value < range.least || *value > range.most) return refusal(text, "whole number", least, most);
    text = std::to_string(*value);  // without leading zeros, which the parser takes for octal
    return "";
  };
  const bool is_any = range.most >= std::numeric_limits<int>::max();
  return option->transform(CLI::Validator(read, ""))->type_name(is_any ? "NUMBER" : least + ".." + most);
}

CLI::Option* read_in(DecimalRange range, CLI::Option* option) {
  const std::string least = range.least, most = range.most;
  const auto read = [=](std::string& text) -> std::string {
    const auto number = [](const std::string& of) { return decimal<double>(of, std::chars_format::fixed); };
    const std::optional<double> value = number(text);
    const bool is_within = value && *value >= *number(least) && *value <= *number(most);
    return is_within ? "" : refusal(text, "number", least, most);
  };
  return option->transform(CLI::Validator(read, ""))->type_name(least + ".." + most);
}

}  // namespace thermocline
