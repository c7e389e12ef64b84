// SPDX-License-Identifier: Apache-2.0
// What the preloaded library wrote down (telemetry/recording.h) as the events of a trace.
//
// Addresses become buffers, and durations, which are measured for a few operations of each kind, become those of all of
// that kind. Where the program marked no steps they are found as the library finds them
// (offload/planning/period_detector.h); what comes behind the last whole step is left out, and, where the recording has
// lost its beginning to a limit, what comes before the first whole one. Directions of kernels' operands are not known:
// each is read and written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "driver/units.h"
#include "trace/event_fields.h"

namespace thermocline {

struct RecordingSummary {
  std::uint64_t operators = 0, buffers = 0, steps = 0;  // in the trace
  std::uint64_t guessed = 0;                            // operators whose duration was not measured
  Bytes peak_live_bytes = 0;
  bool cut = false;          // the recording ends in the middle of a block
  bool begins_late = false;  // its beginning had to make room
};

// Whether a file that begins so is a recording, of whatever version.
bool is_recording(std::string_view begin);

// `path`: with or without an older part beside it. `program` is noted in the trace's header. "" or the reason why not.
std::string read_recording(const std::string& path, const std::string& program, EventSink* out,
                           RecordingSummary* summary);

}  // namespace thermocline
