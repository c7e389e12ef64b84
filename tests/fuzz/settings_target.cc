// SPDX-License-Identifier: Apache-2.0
// Input: an arbitrary file as settings, and arbitrary text as a variable's value. Errors must be reported in one line
// each; accepted settings must print as a text that gives the same settings.
#include <cstddef>
#include <cstdint>
#include <string>

#include "config/load.h"
#include "config/option_table.h"
#include "driver/check.h"
#include "tests/fuzz/memory_file.h"

namespace thermocline::fuzz {
namespace {

void check_texts(const Settings& settings) {
  for (const Option& option : option_table()) {
    const std::string text = value_text(option, settings);
    if (text.empty()) continue;
    Value value;
    ParseError error;
    THERMOCLINE_CHECK(parse_value(option, text, &value, &error), "what is printed is accepted");
    Settings again = settings;
    option.store(again, value);
    THERMOCLINE_CHECK(value_text(option, again) == text, "and means the same");
  }
}

void read_file(std::string_view input) {
  const MemoryFile file(input);
  LoadedSettings loaded = default_loaded_settings();
  load_settings_file(file.path(), &loaded);
  for (const Problem& problem : loaded.problems) THERMOCLINE_CHECK(!problem.text().empty(), "who refuses says why");
  check_texts(loaded.settings);
}

// The first byte selects the variable.
void read_variable(std::string_view input) {
  const auto options = option_table();
  const Option& option = options[static_cast<unsigned char>(input.front()) % options.size()];
  Value value;
  ParseError error;
  if (!parse_value(option, input.substr(1), &value, &error)) {
    THERMOCLINE_CHECK(!error.message.empty(), "who refuses says why");
    return;
  }
  Settings settings = default_loaded_settings().settings;
  option.store(settings, value);
  check_texts(settings);
}

}  // namespace
}  // namespace thermocline::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  thermocline::fuzz::read_file(input);
  if (!input.empty()) thermocline::fuzz::read_variable(input);
  return 0;
}
