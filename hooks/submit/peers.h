// SPDX-License-Identifier: Apache-2.0
// Which devices may use the memory of which other devices. Mapped memory is accessible only to the devices that its
// mapping lists. So when a program enables peer access, the engine of the device whose memory is to be used opens all
// its mappings, present and future.
#pragma once

#include "hooks/interpose/cuda_api.h"
#include "offload/engine/engine.h"

namespace thermocline {

// Lock-free. A device may always use its own memory.
bool may_use(CUdevice device, CUdevice memory_of) noexcept;

// The program has enabled it in the driver, now or before. Logs if the engine can not do the same.
void lets_use(CUdevice device, CUdevice memory_of);
// Called before an engine is published: opens it to the devices that may use its device's memory.
void open_to_peers(Engine& engine, CUdevice memory_of);
// The device's context ends, and with it the rights of others to its memory.
void forget_peers_of(CUdevice memory_of) noexcept;

}  // namespace thermocline
