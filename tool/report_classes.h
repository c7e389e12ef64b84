// SPDX-License-Identifier: Apache-2.0
// What the report's page stacks memory by: the engine's classes of operators, and finer ones that matter to people
// alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thermocline {

// Class 0 is what was there before the first operator.
std::vector<std::string> report_class_names();

// Of an operator's name; above 0.
int report_class(std::string_view operator_name);

}  // namespace thermocline
