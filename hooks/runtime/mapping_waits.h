// SPDX-License-Identifier: Apache-2.0
// Finds out whether the driver's mapping functions wait for work in flight. An engine calls them with its lock held;
// but the value that a blocked stream waits for may have to be written by the calling thread, or by one that needs the
// lock. So this is tested once, before the program first blocks a stream. The engines then make no such call while a
// stream is blocked (Engine::mapping_waits).
#pragma once

namespace thermocline {

// Call it without a lock, before submitting an operation that may block a stream. Other threads can continue: one may
// have to unblock this thread's work. If there is no context, nothing is tested yet.
void find_whether_mapping_waits();

// Whether tools are told (NVTX) that the memory used for the test contains no buffer.
void annotate_mapping_probe(bool annotate) noexcept;

// Whether the test was made and found that some functions wait.
bool mapping_was_found_to_wait() noexcept;

}  // namespace thermocline
