// SPDX-License-Identifier: Apache-2.0
// What a kernel is given, for launches and graph nodes alike.
#pragma once

#include "hooks/operands/parameters.h"
#include "hooks/submit/submit.h"

namespace thermocline {

// Adds the words among the arguments that are addresses of the engine. False: they can not be read. May throw
// bad_alloc.
bool add_arguments(const EngineSet& engines, CUfunction function, KernelArguments arguments, AccessList* accesses);

}  // namespace thermocline
