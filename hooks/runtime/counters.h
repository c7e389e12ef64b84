// SPDX-License-Identifier: Apache-2.0
// Counters of the hooks, beside the engine's. Relaxed atomics: only for information.
#pragma once

#include <cstdint>

namespace thermocline {

enum class Counter {
  kUnknownLaunches,     // parameters could not be read: everything counted as accessed
  kCapturedOperations,  // captured into graphs
  kOtherContexts,       // allocations in contexts without an engine, passed to the driver
  kUnknownFunctions,    // driver functions newer than the table: the program's calls to them are not seen
  kUnseenCollectives,   // NCCL kernels whose call was not seen (linked statically), or that end in the background
  kBypassingLibraries,  // libraries whose driver calls bypass the hooks; counted at the end
  kRefusedShares,       // memory of the engines that the driver does not share with other processes
  kUntrackedUploads,    // copies of graphs whose source could not be read, or beyond the limit
  kUnreadTables,        // tables in host memory beyond the number read for one operation
  kMissingMechanisms,   // mechanisms of the driver that were probed when an engine began, and failed
  kUnmappableDevices,   // devices without virtual memory management, which have no engine (caching_heaps.h)
  kCutGraphs,           // executable graphs that were cut into segments, each time anew
  kGraphSegments,       // segments of graphs that were launched
  kUncutGraphs,         // launches of graphs that do not fit at once and can not be cut
  kCount
};
void count(Counter counter) noexcept;
std::uint64_t counted(Counter counter) noexcept;

}  // namespace thermocline
