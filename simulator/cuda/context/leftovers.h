// SPDX-License-Identifier: Apache-2.0
// What a program has made and not released, in words, for the end of a checked run. Contexts, modules and what the
// driver made by itself do not count: nobody is expected to end them.
#pragma once

#include <string>

#include "simulator/cuda/state.h"

namespace simulator::cuda {

// Empty when there is nothing. With the machine's lock.
std::string leftovers(const Machine& machine);

}  // namespace simulator::cuda
