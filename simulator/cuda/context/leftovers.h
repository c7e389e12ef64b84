// SPDX-License-Identifier: Apache-2.0
// Describes what a program has created and not released, for the end of a checked run. Contexts, modules and what the
// driver creates itself do not count: nobody is expected to release them.
#pragma once

#include <string>

#include "simulator/cuda/state.h"

namespace simulator::cuda {

// Empty if there is nothing. Call with the machine's lock held.
std::string leftovers(const Machine& machine);

}  // namespace simulator::cuda
