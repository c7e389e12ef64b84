// SPDX-License-Identifier: Apache-2.0
// Rewrites a recorded program for another number of streams: its operators are distributed over the streams, and the
// replay makes one stream wait for another only where they use the same buffer (trace/program_order.h).
//
// Assumption, which a trace can not confirm: operators are ordered only by the buffers that they name. A random number
// generator that two operators share, for example, is no such buffer.
#pragma once

#include <cstdint>
#include <optional>

#include "trace/trace.h"

namespace thermocline {

inline constexpr std::uint32_t kMostStreams = 64;

// Without a seed, an operator goes to the stream where it can begin first (list scheduling, with the durations that
// follow from `rates`; among equals, the stream that last ran something it waits for, so that a chain stays in its
// stream). With a seed it goes to a random stream. Equal steps are distributed equally. A buffer is allocated on the
// stream of its first use and freed on the stream of its last.
void spread_over_streams(std::uint32_t streams, const DeviceRates& rates, std::optional<std::uint64_t> seed,
                         Trace* trace);

}  // namespace thermocline
