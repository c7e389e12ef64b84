// SPDX-License-Identifier: Apache-2.0
// Which devices may use the memory of which others. Mapped memory is open to a device when its mapping says so, and to
// no other; so where a program enables peer access, the engine of the device that is to be used is told to open what it
// maps, from the first page to the last.
#pragma once

#include "hooks/interpose/cuda_api.h"
#include "offload/engine/engine.h"

namespace thermocline {

// Without a lock. A device may always use its own.
bool may_use(CUdevice device, CUdevice memory_of) noexcept;

// The program has let it, by the driver; also where that was so before. Says where the engine can not.
void lets_use(CUdevice device, CUdevice memory_of);
// Before an engine is published: opens it to those that may use its device's memory.
void open_to_peers(Engine& engine, CUdevice memory_of);
// The device's context ends, and what others may do with its memory.
void forget_peers_of(CUdevice memory_of) noexcept;

}  // namespace thermocline
