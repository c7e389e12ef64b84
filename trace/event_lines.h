// SPDX-License-Identifier: Apache-2.0
// Events as JSON, one object a line: the public form of a trace, `thermocline-trace/1`.
#pragma once

#include <string>
#include <string_view>

#include "trace/event_fields.h"

namespace thermocline {

// "" or what is wrong with the line, with its column. Fields that are not known are left out.
std::string parse_event_line(std::string_view line, EventFields* out);

// Without a line feed. What is no UTF-8 in a name is replaced.
void append_event_line(const EventFields& fields, std::string* out);

}  // namespace thermocline
