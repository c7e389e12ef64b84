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

// If the file has choices, takes the recorded alternatives, which are the first ones. On failure `out` is unspecified.
// `warnings` (may be null) gets remarks about things that were accepted nevertheless.
bool read_trace(const std::string& path, Trace* out, TraceError* error, std::vector<std::string>* warnings = nullptr);

// A trace file with its choices (trace/choices.h), kept so that any alternatives can be taken.
class TraceFamily {
 public:
  // As read_trace; recorded() is valid afterwards.
  bool read(const std::string& path, TraceError* error, std::vector<std::string>* warnings = nullptr);

  const Trace& recorded() const { return recorded_; }
  bool has_choices() const { return !recorded_.choices.empty(); }
  // The program with these alternatives. Few reasons for failure are left: it is larger than any device, or computes
  // for years.
  bool take(const ChoiceSelection& selection, Trace* out, TraceError* error) const;
  // Passes on all events, of all alternatives; only if there are choices.
  bool pass_on(EventSink* sink, TraceError* error) const;

 private:
  Trace recorded_;
  std::string packed_;  // the events, as event_blocks.h packs them; empty where there is no choice
};

// A sink that builds a trace from events, for callers that also look at the events. It does not make the final check of
// read_trace: that the trace is complete.
std::unique_ptr<EventSink> trace_builder(Trace* out);

}  // namespace thermocline
