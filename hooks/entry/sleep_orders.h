// SPDX-License-Identifier: Apache-2.0
// Orders to sleep and to wake (telemetry/live_order.h) as a process carries them out: on a thread of the library's own,
// whatever the program does.
#pragma once

#include "offload/sleep.h"
#include "telemetry/live_order.h"

namespace thermocline {

// Called before orders are received. If the end of the process can not be noticed, none is carried out.
void take_sleep_orders();

// On the calling thread, for every engine; a CUresult. NOT_READY: a stream captures a graph.
int carry_out_sleep_order(OrderKind kind, const SleepRequest& request, SleepReport* report);

}  // namespace thermocline
