// SPDX-License-Identifier: Apache-2.0
// Access of one device to memory that contexts of another allocate with cuMemAlloc and similar calls. Mapped memory and
// pools have access rights of their own, which this does not change (CUDA Programming Guide, "Device accessibility for
// multi-GPU support").
#pragma once

#include "simulator/cuda/call.h"

namespace simulator::cuda {

// The context ends: removes it as a peer of others, and others as its peers.
void forget_peer(Call& call, CUcontext context);

}  // namespace simulator::cuda
