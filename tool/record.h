// SPDX-License-Identifier: Apache-2.0
// What `run --trace` and `record` do beside running the program: name the file that the library writes to, and make a
// trace of it when the program has ended, however it ended.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace thermocline {

// The trace of a job's process `rank`: with %r in the name, that becomes the number, and 0 where there is none; else
// ".rank7" comes before the endings ("out.jsonl.gz" becomes "out.rank7.jsonl.gz"), and nothing where there is none.
// What is there and is no plain file keeps its name.
std::string name_for_rank(const std::string& trace, std::optional<int> rank);

// The library writes to this name, a dot and the number of the process. Absolute, for the program may work elsewhere;
// unlike that of any other run, so that what an earlier one has left stays.
std::string recording_base(const std::string& trace);

// The exit status; `program` as it was started. Recordings that have become traces are removed, others stay and are
// named. Of each rank, and of what has none or `own`, the process with most operators gets the name for it, others get
// their number behind that.
int make_traces(const std::string& base, const std::string& trace, std::optional<int> own,
                const std::vector<std::string>& program);

// One recording, as after a run that was killed with its tool.
int make_trace(const std::string& recording, const std::string& trace);

}  // namespace thermocline
