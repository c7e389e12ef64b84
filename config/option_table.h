// SPDX-License-Identifier: Apache-2.0
// The table of settings: key, variable, type, default, documentation, field. Everything else (reading, checking,
// printing, the JSON schema, the tool's help) is derived from it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/duration.h"
#include "config/settings.h"
#include "config/size.h"

namespace thermocline {

enum class OptionType {
  kSize,
  kSizeOrPercent,
  kPercent,
  kChoice,
  kBool,
  kOperators,
  kDuration,
  kSlice,  // a duration that is off, or no shorter than a time slice can be
  kFolder,
  kBudget,
  kNumber
};

struct Choice {
  const char* name;
  int value;
};

// A value that has passed its option's checks; the option's type says which member is set.
struct Value {
  SizeSetting size = {};
  bool flag = false;
  int choice = 0;
  std::vector<OperatorRule> operators = {};
  Duration duration{};
  unsigned number = 0;
  std::string folder = {};
};

struct Option {
  const char* key;       // as in the settings file
  const char* variable;  // environment variable
  OptionType type;
  const char* default_text;  // "": unset
  const char* doc;           // one line
  std::span<const Choice> choices;
  void (*store)(Settings&, const Value&);
  Value (*load)(const Settings&);
};

std::span<const Option> option_table();
const Option* find_option(std::string_view key);
const Option* find_option_by_variable(std::string_view variable);

// Parses `text` from a variable, a flag or a TOML string.
bool parse_value(const Option& option, std::string_view text, Value* out, ParseError* error);
// The current value, in a form that parse_value accepts; "" when unset.
std::string value_text(const Option& option, const Settings& settings);
// The values that the option accepts, for messages: "a size or a percentage (12GiB, 60%)".
std::string expected_text(const Option& option);

}  // namespace thermocline
