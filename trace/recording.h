// SPDX-License-Identifier: Apache-2.0
// Converts a recording of the preloaded library (telemetry/recording.h) to the events of a trace.
//
// Addresses become buffers. Durations are measured for a few operations of each kind, and are then used for all of that
// kind. If the program marked no steps, they are found as in the library: by the operations and the buffers that they
// reuse (offload/planning/period_detector.h); the part before the first such step is a step, too. Everything after the
// last whole step is left out; if the beginning of the recording was dropped because of a size limit, so is everything
// before the first whole step. Operands of kernels with unknown directions count as read and written.
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
  Bytes peak_with_rest_bytes = 0;  // including the part after the last whole step
  bool cut = false;                // the recording ends in the middle of a block
  bool begins_late = false;        // its beginning was dropped because of a size limit
};

// Whether a file with this beginning is a recording, of any version.
bool is_recording(std::string_view begin);

// `path`: with or without an older part beside it. `program` is noted in the trace's header. Returns "" or the reason
// of failure.
std::string read_recording(const std::string& path, const std::string& program, EventSink* out,
                           RecordingSummary* summary);

}  // namespace thermocline
