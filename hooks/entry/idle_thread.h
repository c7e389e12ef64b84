// SPDX-License-Identifier: Apache-2.0
// A thread of ours that looks every now and then whether the program is idle, and has the engines give back what nobody
// uses (offload/engine/idle.h): a program that makes no call can not be helped within one.
//
// It holds none of the runtime's locks while the driver may wait, makes no call of the driver once the process ends,
// and does not exist in the child of a fork, which has no engines either.
#pragma once

#include "config/duration.h"

namespace thermocline {

// Once in the life of the process; where no thread can be had, the process goes without. `every` 0: nobody looks.
void look_for_idleness(Duration every);

}  // namespace thermocline
