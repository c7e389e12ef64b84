// SPDX-License-Identifier: Apache-2.0
// How an engine tells its caller that a write or a read of the spill file failed.
#pragma once

#include "driver/units.h"

namespace thermocline {

struct SpillProblem {
  bool reading = false;  // contents cannot be read: operations that need them fail. Else they are on the host.
  int error = 0;         // a value of errno, or kWrongChecksum (offload/spill/spill_queue.h)
  Bytes bytes = 0;
};

// Called with the engine's lock held: it must not call an engine. Null: nobody is told.
using SpillProblemHandler = void (*)(const SpillProblem&);

}  // namespace thermocline
