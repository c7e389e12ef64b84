// SPDX-License-Identifier: Apache-2.0
// Allocates and frees on devices without virtual memory management, for the calls of allocation.h. Each buffer is a
// driver allocation of its own. A freed buffer is cached after the same wait that the driver's free makes, so its next
// owner has nothing to wait for. It is returned to the driver instead
//
// - while the process has more than one context, whose work that wait would not cover, or not all its calls are seen;
// - once the program has used something that can block a stream, because the wait could then need this very thread;
// - while a stream is being captured, because waiting would invalidate the capture;
// - if others may know the memory, or it was freed in stream order or from another context.
//
// Cached memory is returned to the driver when the budget is short, or when the driver is out of memory in any call.
#pragma once

#include <cstddef>
#include <optional>

#include "hooks/runtime/caching_heaps.h"
#include "hooks/runtime/guarded.h"

namespace thermocline {

// Allocates in the current context, which is on that device.
CUresult allocate_buffer(DeviceHeap& of, CUdeviceptr* out, std::size_t bytes);
// `call` allocates memory from the driver and stores its address. It counts against the budget and is never cached.
CUresult allocate_beside(DeviceHeap& of, CUdeviceptr* out, std::size_t bytes, Call call);
// Empty: no heap knows the memory. `in_order`: freed in stream order.
std::optional<CUresult> free_in_heap(CUdeviceptr at, bool in_order, Call otherwise);

// Returns all cached memory to the driver. True if any memory was returned.
bool empty_caches();
// Others may know the memory at this address from now on: it is not cached when it is freed.
void keep_from_cache(CUdeviceptr at);

}  // namespace thermocline
