// SPDX-License-Identifier: Apache-2.0
// What making a context and a stream have in common with their neighbours.
#pragma once

#include "simulator/cuda/state.h"

namespace simulator::cuda {

// Smaller numbers are more urgent; priorities run from this to 0, as on devices since compute capability 7.0. The time
// line has none: they are accepted and told.
inline constexpr int kGreatestPriority = -5;

// `version`: of the interface that made it, as cuCtxGetApiVersion tells.
CUctx_st new_context(unsigned flags, unsigned version, DeviceId device);

}  // namespace simulator::cuda
