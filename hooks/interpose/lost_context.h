// SPDX-License-Identifier: Apache-2.0
// After some errors every call of a context answers the same error ("any further CUDA work will return the same error",
// cuda.h at these values): so do calls that the library answers in the driver's place.
#pragma once

#include <atomic>

#include "hooks/interpose/cuda_api.h"

namespace thermocline {

constexpr bool loses_the_context(CUresult result) {
  // Newer than the oldest cuda.h that this is built with.
  constexpr int kContained = 226, kTensorMemoryLeak = 721;
  switch (static_cast<int>(result)) {
    case kContained:
    case kTensorMemoryLeak:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      return true;
    default:
      return false;
  }
}

// Whether a wait of any context has answered so, now or earlier: from then on the driver is asked first.
inline std::atomic<bool> any_context_lost{false};

inline void note_lost_context(CUresult result) {
  if (loses_the_context(result)) any_context_lost.store(true, std::memory_order_relaxed);
}

// The error of the current context, if it is lost. An atomic load while none has been, else a call of the driver.
CUresult lost_context_error();

}  // namespace thermocline
