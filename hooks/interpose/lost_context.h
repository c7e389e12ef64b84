// SPDX-License-Identifier: Apache-2.0
// After some errors every call in a context returns the same error (Status::loses_the_context). Calls that the library
// answers in place of the driver must do the same.
#pragma once

#include <atomic>

#include "driver/status.h"
#include "hooks/interpose/cuda_api.h"

namespace thermocline {

constexpr bool loses_the_context(CUresult result) { return Status(static_cast<int>(result)).loses_the_context(); }

// Whether a wait in any context has ever returned such an error: from then on the driver is asked first.
inline std::atomic<bool> any_context_lost{false};

inline void note_lost_context(CUresult result) {
  if (loses_the_context(result)) any_context_lost.store(true, std::memory_order_relaxed);
}

// The error of the current context, if it is lost. Costs an atomic load while no context has been lost, after that a
// driver call.
CUresult lost_context_error();

}  // namespace thermocline
