// SPDX-License-Identifier: Apache-2.0
// Checks variables of the simulated device, for tools that start a program on it: there, a wrong one would only keep
// the device from starting.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace simulator {

// The names of all variables, THERMOCLINE_SIMULATE_*.
std::vector<std::string_view> setting_variables();

// Returns an error message of one line that names the variable, which must be one of these; "": the value is good.
std::string setting_problem(std::string_view variable, std::string_view value);

}  // namespace simulator
