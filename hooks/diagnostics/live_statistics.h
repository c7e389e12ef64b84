// SPDX-License-Identifier: Apache-2.0
// Shows the statistics of this process to whoever asks for them (telemetry/live_page.h): a thread that sleeps until
// then.
#pragma once

namespace thermocline {

// Once in the life of the process; where it can not be, the process goes without.
void show_statistics();
// The process is about to end.
void hide_statistics();

}  // namespace thermocline
