// SPDX-License-Identifier: Apache-2.0
// The additional work of `run --trace` and `record`: they choose the file that the library writes to, and convert it to
// a trace when the program has ended, however it ended.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace thermocline {

// The name of the trace for rank `rank` of a job. %r in the name becomes the rank, 0 if there is none. Without %r,
// ".rank7" is inserted before the extensions ("out.jsonl.gz" becomes "out.rank7.jsonl.gz") if there is a rank. An
// existing file that is not a regular file keeps its name.
std::string name_for_rank(const std::string& trace, std::optional<int> rank);

// The library writes to this name, a dot and the process id: beside the trace, or in the folder for temporary files
// where the trace goes to a device or a pipe. Absolute, because the program may change its folder; different for each
// run, so that recordings of earlier runs stay.
std::string recording_base(const std::string& trace);

// Returns the exit status; `program`: the command line. Recordings that have become traces are removed; others stay,
// and their names are printed. For each rank (and for no rank, and for `own`), the process with the most operators gets
// the trace's name; others get their process id appended.
int make_traces(const std::string& base, const std::string& trace, std::optional<int> own,
                const std::vector<std::string>& program);

// Converts one recording, as after a run that was killed together with the command.
int make_trace(const std::string& recording, const std::string& trace);

}  // namespace thermocline
