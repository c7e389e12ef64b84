// SPDX-License-Identifier: Apache-2.0
// After some errors of a kernel every call of its context answers that error (CUDA driver API, "Data types used by CUDA
// driver": "the context cannot be used, so it must be destroyed"), also those that the library answers by itself.
#pragma once

#include <atomic>

#include "hooks/interpose/cuda_api.h"

namespace thermocline {

constexpr bool loses_the_context(CUresult result) {
  switch (result) {
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

// Whether any context was seen to be lost: then the driver is asked, before the library answers in its place.
inline std::atomic<bool> any_context_lost{false};

inline void note_lost_context(CUresult result) {
  if (result != CUDA_SUCCESS && loses_the_context(result)) any_context_lost.store(true, std::memory_order_relaxed);
}

// The error of the current context, if it is lost. An atomic load while none is.
CUresult lost_context_error();

}  // namespace thermocline
