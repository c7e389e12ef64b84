// SPDX-License-Identifier: Apache-2.0
// Says in this command's words what the parser found wrong.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "tool/commands.h"

namespace thermocline {

// `run` and `record`.
bool takes_program(const std::string& command);

// One line on stderr; returns the exit status. `words`: the command line without what is behind `--`.
int usage_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words,
                const CommandLine& line);

}  // namespace thermocline
