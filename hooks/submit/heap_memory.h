// SPDX-License-Identifier: Apache-2.0
// Allocates and frees on devices without virtual memory management, for the calls of allocation.h. Each buffer is an
// allocation of the driver's own. A freed one is cached after the same wait that the driver's free makes, so whoever gets
// it next has nothing to wait for. It really goes to the driver instead
//
// - while the process has more than one context, whose work that wait would not cover, or not all its calls are seen;
// - once the program has used what can block a stream, because a later free could then wait for the thread that makes it;
// - while a stream is being captured, because waiting would invalidate the capture;
// - if others may know the memory, or it was freed in stream order or from another context.
//
// What is cached goes to the driver when the budget is short, or when the driver is out of memory for whatever call.
#pragma once

#include <cstddef>
#include <optional>

#include "hooks/runtime/caching_heaps.h"
#include "hooks/runtime/guarded.h"

namespace thermocline {

// In the current context, of that device.
CUresult allocate_buffer(DeviceHeap& of, CUdeviceptr* out, std::size_t bytes);
// Memory that `call` gets from the driver, and stores there. It counts against the budget and is never cached.
CUresult allocate_beside(DeviceHeap& of, CUdeviceptr* out, std::size_t bytes, Call call);
// Nothing: no heap knows the memory. `in_order`: freed in the order of a stream.
std::optional<CUresult> free_in_heap(CUdeviceptr at, bool in_order, Call otherwise);

// All that is cached goes to the driver. True if any memory has gone there.
bool empty_caches();
// Others may know the memory that the address lies in from now on: it is not cached when it is freed.
void keep_from_cache(CUdeviceptr at);

}  // namespace thermocline
