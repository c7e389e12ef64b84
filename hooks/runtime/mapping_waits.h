// SPDX-License-Identifier: Apache-2.0
// Whether the driver's mapping functions wait for work in flight. An engine calls them with its lock held, and the value
// that a blocked stream waits for may be written by the thread that calls, or by one that needs the lock. So it is found
// out once, before the program first blocks a stream, and the engines then call none while one is blocked
// (Engine::mapping_waits).
#pragma once

namespace thermocline {

// To be called without a lock, before an operation that may block a stream is submitted. Other threads go on meanwhile:
// one of them may be what this thread's work waits for. Without a context nothing is found out yet.
void find_whether_mapping_waits();

// Tools are told (NVTX) that no buffer is where it is tried.
void annotate_mapping_probe(bool annotate) noexcept;

// It has been found out, and some do.
bool mapping_was_found_to_wait() noexcept;

}  // namespace thermocline
