// SPDX-License-Identifier: Apache-2.0
// Checks fault plans, for tools that start a program on the simulated device: there, a wrong plan would only keep the
// device from starting.
#pragma once

#include <string>

namespace simulator {

// A plan as text, or the file of that name (docs/faults.md). Returns an error message of one line, or nothing.
std::string fault_plan_problem(const std::string& text_or_path);

}  // namespace simulator
