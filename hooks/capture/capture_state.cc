// SPDX-License-Identifier: Apache-2.0
#include "hooks/capture/capture_state.h"

#include "hooks/runtime/stream_context.h"

namespace thermocline {

bool detail::driver_says_it_records(StreamHandle stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return real<Function::cuStreamIsCapturing>(to_cu(stream), &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void CaptureTruce::begin() { active_ = real<Function::cuThreadExchangeStreamCaptureMode>(&mode_) == CUDA_SUCCESS; }

void CaptureTruce::end() { real<Function::cuThreadExchangeStreamCaptureMode>(&mode_); }

}  // namespace thermocline
