// SPDX-License-Identifier: Apache-2.0
// Reports errors that the parser found, in this command's own words.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "tool/commands.h"

namespace thermocline {

// Whether the command is `run` or `record`.
bool takes_program(const std::string& command);

// Prints one line on stderr; returns the exit status. `words`: the command line without the part after `--`.
int usage_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words,
                const CommandLine& line);

}  // namespace thermocline
