// SPDX-License-Identifier: Apache-2.0
// A recorded program as if it had been written for another number of streams: its operators are dealt out, and the
// replay makes one stream wait for another where they meet in a buffer (trace/program_order.h), and nowhere else.
//
// Assumed is what no trace tells: that nothing orders operators but the buffers that they name. A generator of random
// numbers, say, that two operators use is none of them.
#pragma once

#include <cstdint>
#include <optional>

#include "trace/trace.h"

namespace thermocline {

inline constexpr std::uint32_t kMostStreams = 64;

// Without a seed an operator goes where it can begin first (list scheduling with the durations that follow from
// `rates`; of equals where what it waits for ran last, so that a chain stays in its stream). With one it goes to any
// stream, by chance. Equal steps are dealt out equally. A buffer is allocated on the stream that first uses it and
// freed on the one that did so last.
void spread_over_streams(std::uint32_t streams, const DeviceRates& rates, std::optional<std::uint64_t> seed,
                         Trace* trace);

}  // namespace thermocline
