// SPDX-License-Identifier: Apache-2.0
// Memory of other processes that is open here.
#pragma once

#include "simulator/cuda/call.h"

namespace simulator::cuda {

// All that the context has opened, as when it ends. No work is pending.
void close_all_of(Call& call, CUcontext context);

}  // namespace simulator::cuda
