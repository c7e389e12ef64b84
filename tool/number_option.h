// SPDX-License-Identifier: Apache-2.0
// Options whose values are numbers. All of the command's number options are added here, so that every number is read in
// the same way: in decimal digits ("010" is ten), within the option's range, with the same messages for wrong usage.
// The parser's own conversion takes -1 for 2^64-1, and 010 for eight. Sizes are read by config/size.h.
#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace thermocline {

struct CountRange {
  std::uint64_t least = 1, most = 1;
};

// The steps of a replay: more take hours and show nothing new. Fewer if all operators of all steps are kept.
inline constexpr CountRange kStepCounts{1, 100'000};
inline constexpr CountRange kKeptStepCounts{1, 1'000};
inline constexpr CountRange kSeeds{0, std::numeric_limits<std::uint64_t>::max()};
inline constexpr CountRange kProcessNumbers{1, std::numeric_limits<int>::max()};

// Numbers with a fraction. The bounds are texts, as shown in messages and in the help.
struct DecimalRange {
  const char *least, *most;
};

CLI::Option* read_in(CountRange range, CLI::Option* option);
CLI::Option* read_in(DecimalRange range, CLI::Option* option);

// `Target`: a number, an optional or a vector of numbers, that holds the whole range.
template <class Target, class Range>
CLI::Option* add_number(CLI::App* command, const std::string& names, Target& target, Range range,
                        const std::string& description) {
  return read_in(range, command->add_option(names, target, description));
}

}  // namespace thermocline
