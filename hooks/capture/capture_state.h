// SPDX-License-Identifier: Apache-2.0
// Whether any stream records a graph, and what may not be done meanwhile.
#pragma once

#include "hooks/runtime/runtime.h"

namespace thermocline {

// Stream capture, as far as it must be known: whether any stream records.
// capture_began() comes before the driver's own call; if that fails, capture_ended() follows.
void capture_began();
void capture_ended();
bool is_recording(StreamHandle stream);
bool any_capture();
// Waits for all that was submitted in the engine's context, which is current. Not where any stream records, for that
// would end its recording (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED). Under `Inside`, and not from within an engine.
CUresult synchronize_unless_recorded(const ActiveEngine& active);

// While one lives, driver calls on this thread do not disturb anybody's capture (cuThreadExchangeStreamCaptureMode).
class CaptureTruce {
 public:
  CaptureTruce();
  ~CaptureTruce();
  CaptureTruce(const CaptureTruce&) = delete;
  CaptureTruce& operator=(const CaptureTruce&) = delete;

 private:
  bool active_ = false;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace thermocline
