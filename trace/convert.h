// SPDX-License-Identifier: Apache-2.0
// From one form of a trace to another (event_file.h). The new file takes its place as a whole, or what was there stays.
// Fields that a trace does not have (read.h ignores them) are left out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trace/event_file.h"
#include "trace/recording.h"

namespace thermocline {

// Of a trace or a recording; refused is what read_trace refuses. `events`: with the header.
bool convert_trace(const std::string& from, const std::string& to, std::size_t* events, TraceError* error,
                   std::vector<std::string>* warnings);

// Of a recording, with what is to be told about it. False: `reason` says why, with the file's name.
bool convert_recording(const std::string& from, const std::string& to, const std::string& program,
                       RecordingSummary* summary, std::string* reason);

}  // namespace thermocline
