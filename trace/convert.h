// SPDX-License-Identifier: Apache-2.0
// Converts a trace from one file format to another (event_file.h). The new file replaces an existing one only when it
// is complete. Fields that a trace does not define (read.h ignores them) are dropped.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trace/event_file.h"
#include "trace/recording.h"
#include "trace/slice_rules.h"

namespace thermocline {

struct Converted {
  std::size_t events = 0;  // including the header
  std::size_t marked = 0;  // operators, by rules
};

// Converts a trace or a recording; fails if read_trace fails. `rules`: marks operators that may be split; null: none.
bool convert_trace(const std::string& from, const std::string& to, const SliceRules* rules, Converted* out,
                   TraceError* error, std::vector<std::string>* warnings);

// Converts a recording and returns remarks about it. False: `reason` has the reason, with the file's name.
bool convert_recording(const std::string& from, const std::string& to, const std::string& program,
                       RecordingSummary* summary, std::string* reason);

}  // namespace thermocline
