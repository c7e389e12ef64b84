// SPDX-License-Identifier: Apache-2.0
// Allocates and frees memory for the program, in all calls that do so (memory_hooks.cc).
#pragma once

#include <cstddef>
#include <optional>

#include "hooks/runtime/guarded.h"
#include "hooks/submit/submit.h"

namespace thermocline {

// Allocates from the engine of the current context, which is created if necessary; calls `otherwise` if there is none.
CUresult allocate_memory(CUdeviceptr* out, std::size_t bytes, std::optional<StreamHandle> stream, Call otherwise);
// Calls `otherwise` if no engine owns the address.
CUresult free_memory(CUdeviceptr address, std::optional<StreamHandle> stream, Call otherwise);

// From now on cuMemAllocAsync may allocate from pools other than the default one.
void a_pool_was_made_current() noexcept;
// The device of a pool whose memory comes from the engine; nothing if the memory is the driver's, or the pool does not
// exist.
std::optional<CUdevice> device_of_plain_pool(CUmemoryPool pool);

// Memory of the driver, counted against the budget (physical_hooks.cc). free_external accepts any address.
CUresult allocate_external(CUdeviceptr* out, Bytes bytes, Call call);
CUresult free_external(CUdeviceptr address, Call call);

}  // namespace thermocline
