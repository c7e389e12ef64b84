// SPDX-License-Identifier: Apache-2.0
// Where a recorded program ran out of memory, in the trace's own terms: the operator with its place and class, and the
// buffers with their numbers, tags (module names, if PyTorch recorded them) and producers.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "trace/replay.h"

namespace thermocline {

// "operator 312 of 455 in step 2 of 12: aten::convolution (conv)"; "" if not known.
std::string refused_place(const Trace& trace, const StepProgram& program, const ReplayResult& result);
// The operator's largest buffers, one a line, each with `indent` spaces before it: "512.0 MiB read: buffer 1234,
// activation layer3, from aten::relu at operator 300".
std::string refused_buffers(const Trace& trace, const ReplayResult& result, std::size_t indent);
// The engine's report, with both of the above.
std::string report_with_names(const Trace& trace, const StepProgram& program, const ReplayResult& result);
// Null if not known.
nlohmann::ordered_json refused_json(const Trace& trace, const ReplayResult& result);

}  // namespace thermocline
