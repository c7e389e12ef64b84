// SPDX-License-Identifier: Apache-2.0
// Buffers whose addresses somebody keeps whose use of them we do not see (keep() in submit.h). When the program frees
// such a buffer by a call for which the driver waits, we have to wait as it does: the engine gives memory that is freed
// to others behind all uses that it has seen, and these it has not.
#pragma once

#include "hooks/operands/accesses.h"
#include "offload/engine/engine.h"

namespace thermocline {

// The buffers that are accessed are kept from now on.
void remember_kept(const Engine& engine, const AccessList& accesses);

// Both cost nothing as long as nothing is kept.
bool is_kept(const Engine& engine, DeviceAddress address);
// The buffer at the address is being freed; true if it was kept.
bool forget_kept(const Engine& engine, DeviceAddress address);

}  // namespace thermocline
