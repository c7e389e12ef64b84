// SPDX-License-Identifier: Apache-2.0
// Reads a trace in any of its forms (event_file.h). Rejected, with file, line and reason: an unknown event, an id that
// is not alive or used twice, a negative or impossible figure.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trace/event_file.h"
#include "trace/trace.h"

namespace thermocline {

// On failure `out` is unspecified. `warnings` (may be null) takes remarks about what was accepted nevertheless.
bool read_trace(const std::string& path, Trace* out, TraceError* error, std::vector<std::string>* warnings = nullptr);

// What puts a trace together from its events, for those that look at these, too. Without the last word of read_trace:
// whether the whole is one.
std::unique_ptr<EventSink> trace_builder(Trace* out);

}  // namespace thermocline
