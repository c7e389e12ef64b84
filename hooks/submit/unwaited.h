// SPDX-License-Identifier: Apache-2.0
// Work that uses an engine's memory in a stream that no engine follows, and for which the host's wait was refused by
// the driver. The memory that the work uses is pinned and cannot be freed until a wait has succeeded, or the work's
// context has ended.
#pragma once

#include "hooks/operands/accesses.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {

// `home`: the context of the stream. No engine's lock may be held.
void remember_unwaited(const ActiveEngine& owner, const AccessList& accesses, CUcontext home);

// Call it before the buffer is freed: waits again. An error is the driver's, and the buffer must not be freed. Costs
// nothing as long as every wait has succeeded.
CUresult wait_for_unwaited(const ActiveEngine& owner, DeviceAddress at);

// The work submitted in that context has ended with it.
void forget_unwaited_in(CUcontext home);
void forget_unwaited_of(const ActiveEngine& owner);

}  // namespace thermocline
