// SPDX-License-Identifier: Apache-2.0
// From what the preloaded library wrote down (offload/recording.h) to a `thermocline-trace/1` file.
//
// Addresses become buffers, and durations, which are measured for a few operations of each kind, become those of all of
// that kind. Where the program marked no steps they are found as the library finds them (offload/recogniser.h); what
// comes behind the last whole step is left out. Directions of kernels' operands are not known: each is read and
// written.
#pragma once

#include <cstdint>
#include <string>

#include "driver/units.h"

namespace thermocline {

struct RecordingSummary {
  std::uint64_t operators = 0, buffers = 0, steps = 0;  // in the trace
  std::uint64_t guessed = 0;                            // operators whose duration was not measured
  Bytes peak_live_bytes = 0;
  bool cut = false;  // the recording ends in the middle of a block
};

// `program` is noted in the trace's header. Replaces `to` as a whole, or leaves it as it was. False: `reason` says why,
// with the file's name.
bool convert_recording(const std::string& from, const std::string& to, const std::string& program,
                       RecordingSummary* summary, std::string* reason);

}  // namespace thermocline
