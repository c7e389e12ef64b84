// SPDX-License-Identifier: Apache-2.0
// Lets the library's own threads visit each engine.
#pragma once

#include "hooks/capture/capture_state.h"
#include "hooks/runtime/guarded.h"
#include "hooks/runtime/runtime.h"
#include "hooks/submit/submit.h"

namespace thermocline {

// Calls `visit` for each engine, with its context current. No engine ends during this. Does nothing while a stream
// captures, because the driver then forbids some calls: the caller tries again later.
template <class Visit>
void visit_engines(Visit visit) {
  if (Runtime::get().broken() || any_capture()) return;
  static_cast<void>(guarded([&] {
    const HeldEngines engines(HeldEngines::Even::kOne);
    if (engines.none()) return CUDA_SUCCESS;
    const Inside inside;
    const CaptureTruce truce;
    for (const ActiveEngine* active : *engines) {
      const CurrentContext context(*active);
      if (!context.is_refused()) visit(*active);
    }
    return CUDA_SUCCESS;
  }));
}

}  // namespace thermocline
