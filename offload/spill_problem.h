// SPDX-License-Identifier: Apache-2.0
// What an engine tells its caller of a spill file that does not do what was asked of it.
#pragma once

#include "driver/units.h"

namespace thermocline {

struct SpillProblem {
  bool reading = false;  // contents can not be read: what needs them fails. Else they have stayed on the host.
  int error = 0;         // a number of errno, or kWrongChecksum (offload/spill/spill_queue.h)
  Bytes bytes = 0;
};

// Called with the engine's lock held: it must not call an engine. Null: nobody is told.
using SpillProblemHandler = void (*)(const SpillProblem&);

}  // namespace thermocline
