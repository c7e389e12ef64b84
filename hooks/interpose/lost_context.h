// SPDX-License-Identifier: Apache-2.0
// After some errors every call in a context returns the same error ("any further CUDA work will return the same error",
// cuda.h at these values). Calls that the library answers in place of the driver must do the same.
#pragma once

#include <atomic>

#include "hooks/interpose/cuda_api.h"

namespace thermocline {

constexpr bool loses_the_context(CUresult result) {
  // Newer than the oldest supported cuda.h.
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

// Whether a wait in any context has ever returned such an error: from then on the driver is asked first.
inline std::atomic<bool> any_context_lost{false};

inline void note_lost_context(CUresult result) {
  if (loses_the_context(result)) any_context_lost.store(true, std::memory_order_relaxed);
}

// The error of the current context, if it is lost. Costs an atomic load while no context has been lost, after that a
// driver call.
CUresult lost_context_error();

}  // namespace thermocline
