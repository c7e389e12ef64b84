// SPDX-License-Identifier: Apache-2.0
// Makes the statistics of this process available to other processes (telemetry/live_page.h). A thread sleeps until they
// are requested.
#pragma once

namespace thermocline {

// Called once in the life of the process. If it fails, the process has no live statistics.
void show_statistics();
// The process is about to end.
void hide_statistics();

}  // namespace thermocline
