// SPDX-License-Identifier: Apache-2.0
// What `run --trace` and `record` do beside running the program: name the file that the library writes to, and make a
// trace of it when the program has ended, however it ended.
#pragma once

#include <string>
#include <vector>

namespace thermocline {

// The library writes to this name, a dot and the number of the process. Absolute, for the program may work elsewhere;
// unlike that of any other run, so that what an earlier one has left stays.
std::string recording_base(const std::string& trace);

// The exit status; `program` as it was started. Recordings that have become traces are removed, others stay and are
// named. The process with most operators becomes `trace`, others get their number behind it.
int make_traces(const std::string& base, const std::string& trace, const std::vector<std::string>& program);

// One recording, as after a run that was killed with its tool.
int make_trace(const std::string& recording, const std::string& trace);

}  // namespace thermocline
