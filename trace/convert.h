// SPDX-License-Identifier: Apache-2.0
// Converts a trace from one file format to another (event_file.h). The new file replaces an existing one only when it
// is complete. Fields that a trace does not define (read.h ignores them) are dropped.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trace/event_file.h"
#include "trace/recording.h"

namespace thermocline {

// Converts a trace or a recording; fails where read_trace fails. `events`: their number, including the header.
bool convert_trace(const std::string& from, const std::string& to, std::size_t* events, TraceError* error,
                   std::vector<std::string>* warnings);

// Converts a recording and returns remarks about it. False: `reason` has the reason, with the file's name.
bool convert_recording(const std::string& from, const std::string& to, const std::string& program,
                       RecordingSummary* summary, std::string* reason);

}  // namespace thermocline
