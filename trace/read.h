// SPDX-License-Identifier: Apache-2.0
// Reads `thermocline-trace/1`: JSON Lines, gzip-compressed or plain. The first line is the header; each further line
// one event. Unknown fields are ignored. Rejected, with file, line and reason: an unknown event, an id that is not
// alive or used twice, a negative size, a line that is no JSON object, a file that ends early.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace thermocline {

struct TraceError {
  std::string path;
  std::size_t line = 0;  // from 1; 0: the file as a whole
  std::string reason;

  // "step.jsonl.gz:12: buffer 7 is not alive"
  std::string text() const;
};

// On failure `out` is unspecified. `warnings` (may be null) takes remarks about what was accepted nevertheless.
bool read_trace(const std::string& path, Trace* out, TraceError* error, std::vector<std::string>* warnings = nullptr);

}  // namespace thermocline
