// SPDX-License-Identifier: Apache-2.0
// A background thread that checks from time to time whether the program is idle, and makes the engines release unused
// memory (offload/engine/idle.h). A hook cannot do this for a program that makes no calls.
//
// The thread holds none of the runtime's locks while the driver may wait, does not call the driver once the process is
// ending, and does not exist in the child of a fork, which has no engines either.
#pragma once

#include "config/duration.h"

namespace thermocline {

// Called once in the life of the process. If no thread can be created, idleness is not checked. `every` 0: disabled.
void look_for_idleness(Duration every);

}  // namespace thermocline
