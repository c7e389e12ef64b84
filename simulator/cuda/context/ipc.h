// SPDX-License-Identifier: Apache-2.0
// Memory of other processes that is open in this one.
#pragma once

#include "simulator/cuda/call.h"

namespace simulator::cuda {

// Closes everything that the context has opened, because it ends. No work is pending.
void close_all_of(Call& call, CUcontext context);

}  // namespace simulator::cuda
