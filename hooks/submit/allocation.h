// SPDX-License-Identifier: Apache-2.0
// Allocating and freeing on behalf of the program, whichever of its calls asks (memory_hooks.cc).
#pragma once

#include <cstddef>
#include <optional>

#include "hooks/runtime/guarded.h"
#include "hooks/submit/submit.h"

namespace thermocline {

// From the engine of the current context, which begins here; `otherwise` where there is none.
CUresult allocate_memory(CUdeviceptr* out, std::size_t bytes, std::optional<StreamHandle> stream, Call otherwise);
// `otherwise` where the address is not the engine's.
CUresult free_memory(CUdeviceptr address, std::optional<StreamHandle> stream, Call otherwise);

// From now on cuMemAllocAsync may take from other pools than the default one.
void a_pool_was_made_current() noexcept;
// Of a pool whose memory is the engines'; none: it is the driver's, or there is no such pool.
std::optional<CUdevice> device_of_plain_pool(CUmemoryPool pool);

// The driver's memory, counted against the budget (physical_hooks.cc). What is freed may be anybody's.
CUresult allocate_external(CUdeviceptr* out, Bytes bytes, Call call);
CUresult free_external(CUdeviceptr address, Call call);

}  // namespace thermocline
