// SPDX-License-Identifier: Apache-2.0
// The classes by which the report's page stacks memory: the engine's classes of operators, and finer ones that only
// matter to readers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thermocline {

// Class 0 contains what existed before the first operator.
std::vector<std::string> report_class_names();

// The class of an operator, by its name; above 0.
int report_class(std::string_view operator_name);

}  // namespace thermocline
