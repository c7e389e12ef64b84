// SPDX-License-Identifier: Apache-2.0
// Access of one device to what contexts of another allocate with cuMemAlloc and its kin. Mapped memory and pools have
// access of their own, which none of this changes (CUDA Programming Guide, "Device accessibility for multi-GPU
// support").
#pragma once

#include "simulator/cuda/call.h"

namespace simulator::cuda {

// The context ends: nobody is its peer, and it nobody's.
void forget_peer(Call& call, CUcontext context);

}  // namespace simulator::cuda
