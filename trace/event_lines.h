// SPDX-License-Identifier: Apache-2.0
// Events as JSON, one object per line: the public form of a trace, `thermocline-trace/1`.
#pragma once

#include <string>
#include <string_view>

#include "trace/event_fields.h"

namespace thermocline {

// Returns "" or what is wrong with the line, with the column. Unknown fields are ignored.
std::string parse_event_line(std::string_view line, EventFields* out);

// Appends no line feed. Bytes of a name that are not valid UTF-8 are replaced.
void append_event_line(const EventFields& fields, std::string* out);

}  // namespace thermocline
