// SPDX-License-Identifier: Apache-2.0
// Carries out orders to sleep and to wake (telemetry/live_order.h), on a separate thread of the library, whatever the
// program does.
#pragma once

#include "offload/sleep.h"
#include "telemetry/live_order.h"

namespace thermocline {

// Called before orders are received. If the end of the process cannot be noticed, no order is carried out.
void take_sleep_orders();

// Runs on the calling thread, for every engine; returns a CUresult. NOT_READY: a stream captures a graph.
int carry_out_sleep_order(OrderKind kind, const SleepRequest& request, SleepReport* report);

}  // namespace thermocline
