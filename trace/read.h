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

// On failure `out` is unspecified. `warnings` (may be null) gets remarks about what was accepted nevertheless.
bool read_trace(const std::string& path, Trace* out, TraceError* error, std::vector<std::string>* warnings = nullptr);

// A sink that builds a trace from events, for callers that also look at the events. It does not make the final check of
// read_trace: that the trace is complete.
std::unique_ptr<EventSink> trace_builder(Trace* out);

}  // namespace thermocline
