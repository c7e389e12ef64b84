// SPDX-License-Identifier: Apache-2.0
// Functions for contexts and streams that several files of this folder share.
#pragma once

#include "simulator/cuda/call.h"

namespace simulator::cuda {

// Smaller numbers have a higher priority; priorities go from this to 0, as on devices since compute capability 7.0. The
// time line has no priorities: they are accepted and reported, without effect.
inline constexpr int kGreatestPriority = -5;

// `version`: of the API that created it, as cuCtxGetApiVersion reports it.
CUctx_st new_context(unsigned flags, unsigned version, DeviceId device);

// The value that was set, or the initial one.
std::size_t context_limit(const CUctx_st& context, CUlimit limit);

CUstream new_stream(Call& call, CUcontext context, unsigned flags, int priority);

// One more, or one fewer, retains the primary context; the last release ends it.
CUcontext retain_primary(Call& call, CUdevice device);
CUresult release_primary(Call& call, CUdevice device);

// The objects must exist; their handles become invalid.
void destroy(Call& call, CUstream stream);
void destroy(Call& call, CUevent event);

// Destroys streams, events, modules, arrays, memory and memory opened for others, because the context ends. Waits for
// its device.
void end_contents_of(Call& call, CUcontext context);

}  // namespace simulator::cuda
