// SPDX-License-Identifier: Apache-2.0
// The arguments of a kernel, for launches and graph nodes alike.
#pragma once

#include "hooks/operands/parameters.h"
#include "hooks/submit/submit.h"

namespace thermocline {

// Adds the arguments that are addresses of the engines. False: they cannot be read. May throw bad_alloc.
bool add_arguments(const EngineSet& engines, CUfunction function, KernelArguments arguments, AccessList* accesses);

}  // namespace thermocline
