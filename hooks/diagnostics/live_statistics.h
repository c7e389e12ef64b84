// SPDX-License-Identifier: Apache-2.0
// Makes the statistics of this process available to other processes (telemetry/live_page.h). A thread sleeps until they
// are requested. It also receives the orders that they give (telemetry/live_order.h), and has them carried out on another
// thread, so that statistics are shown meanwhile.
#pragma once

#include "offload/sleep.h"
#include "telemetry/live_order.h"

namespace thermocline {

// How orders are carried out; to be called before show_statistics. `carry_out` returns a CUresult.
void carry_out_orders_with(int (*carry_out)(OrderKind kind, SleepReport* report));

// Called once in the life of the process. If it fails, the process has no live statistics.
void show_statistics();
// The process is about to end.
void hide_statistics();

}  // namespace thermocline
