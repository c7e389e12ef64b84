// SPDX-License-Identifier: Apache-2.0
// Which devices may use the memory of which others. Mapped memory is open to a device when its mapping says so, and to
// no other; so where a program enables peer access, the engine of the device that is to be used is told to open what it
// maps, from the first page to the last.
#pragma once

#include "hooks/cuda_api.h"

namespace thermocline {

// Without a lock. A device may always use its own.
bool may_use(CUdevice device, CUdevice memory_of) noexcept;

}  // namespace thermocline
