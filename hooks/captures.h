// SPDX-License-Identifier: Apache-2.0
// The captures that hooks saw begin: whose they are, and in which mode, by which cuda.h forbids threads what belongs to
// no graph (cuThreadExchangeStreamCaptureMode).
#pragma once

#include "driver/driver.h"
#include "hooks/cuda_api.h"

namespace thermocline {

void note_capture(StreamHandle stream, CUstreamCaptureMode mode);
void forget_capture(StreamHandle stream);

// Whether the calling thread may not allocate memory outside of streams now. A capture that ended unseen may be among
// the reasons, so the driver has the last word.
bool captures_forbid_allocation();

}  // namespace thermocline
