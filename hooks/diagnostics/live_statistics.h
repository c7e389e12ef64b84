// SPDX-License-Identifier: Apache-2.0
// Makes the statistics of this process available to other processes (telemetry/live_page.h). A thread sleeps until they
// are requested. It also receives orders from them (telemetry/live_order.h). Another thread carries these out, so that
// statistics remain available meanwhile.
#pragma once

#include "offload/sleep.h"
#include "telemetry/live_order.h"

namespace thermocline {

// Sets how orders are carried out; call it before show_statistics. `carry_out` returns a CUresult. `tag`: as in
// SleepRequest.
void carry_out_orders_with(int (*carry_out)(OrderKind kind, std::uint64_t tag, SleepReport* report));

// Called once in the life of the process. If it fails, the process has no live statistics.
void show_statistics();
// The process is about to end.
void hide_statistics();

}  // namespace thermocline
