// SPDX-License-Identifier: Apache-2.0
// Applies a function to every engine of the process, in the engine's context, from inside a driver call of the program.
#pragma once

#include "hooks/capture/capture_state.h"
#include "hooks/runtime/guarded.h"
#include "hooks/runtime/runtime.h"
#include "hooks/submit/holding.h"
#include "hooks/submit/submit.h"

namespace thermocline {

// Calls visit(engines, active) for each engine. Does nothing during the library's own driver calls, and skips engines
// whose context can not be made current. Locks the set of engines, so the caller must not hold it.
template <class Visit>
void for_each_engine(Visit visit) {
  if (Inside::now() || Runtime::get().broken()) return;
  static_cast<void>(guarded([&] {
    const HeldEngines engines;
    if (engines.none()) return CUDA_SUCCESS;
    const Inside inside;
    const CaptureTruce truce;
    for (const ActiveEngine* active : *engines) {
      const CurrentContext context(*active);
      if (!context.is_refused()) visit(*engines, *active);
    }
    return CUDA_SUCCESS;
  }));
}

}  // namespace thermocline
