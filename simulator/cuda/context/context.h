// SPDX-License-Identifier: Apache-2.0
// What making a context and a stream have in common with their neighbours.
#pragma once

#include "simulator/cuda/call.h"

namespace simulator::cuda {

// Smaller numbers are more urgent; priorities run from this to 0, as on devices since compute capability 7.0. The time
// line has none: they are accepted and told.
inline constexpr int kGreatestPriority = -5;

// `version`: of the interface that made it, as cuCtxGetApiVersion tells.
CUctx_st new_context(unsigned flags, unsigned version, DeviceId device);

// As it was set, or as it is at first.
std::size_t context_limit(const CUctx_st& context, CUlimit limit);

CUstream new_stream(Call& call, CUcontext context, unsigned flags, int priority);

// Of those who retain the primary context there is one more, or one less: the last one's end is the context's.
CUcontext retain_primary(Call& call, CUdevice device);
CUresult release_primary(Call& call, CUdevice device);

// Objects that are there; their handles are none any more.
void destroy(Call& call, CUstream stream);
void destroy(Call& call, CUevent event);

// Streams, events, modules, arrays, memory and what is open to others, as when the context ends. Waits for its device.
void end_contents_of(Call& call, CUcontext context);

}  // namespace simulator::cuda
