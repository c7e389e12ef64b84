// SPDX-License-Identifier: Apache-2.0
// Escaped buffers: something whose accesses cannot be seen has their address (keep() in submit.h). If the program frees
// such a buffer with a call in which the driver waits, the library must wait too: the engine orders the next owner of
// the memory only after uses that it has seen.
#pragma once

#include "hooks/operands/accesses.h"
#include "offload/engine/engine.h"

namespace thermocline {

// Marks the accessed buffers as escaped.
void remember_kept(const Engine& engine, const AccessList& accesses);

// These two cost nothing as long as no buffer has escaped.
bool is_kept(const Engine& engine, DeviceAddress address);
// The buffer at the address is being freed; true if it had escaped.
bool forget_kept(const Engine& engine, DeviceAddress address);

}  // namespace thermocline
