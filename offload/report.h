// SPDX-License-Identifier: Apache-2.0
// The out-of-memory report: what was asked for, who holds what, and what to change. Plain text, one page, most useful
// first.
#pragma once

#include <string>

#include "allocator/heap.h"
#include "offload/engine.h"
#include "offload/residency.h"

namespace thermocline {

// `what` asked for `wanted` bytes and did not get them.
std::string out_of_memory_report(const char* what, Bytes wanted, const EngineStatistics& now, const Heap& heap,
                                 const Residency& residency);

// The default handler: stderr, whole, without stdio's buffers.
void write_report(const std::string& report);

}  // namespace thermocline
