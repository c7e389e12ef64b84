// SPDX-License-Identifier: Apache-2.0
// Work that uses an engine's memory in a stream that no engine follows, and that the host was to wait for: the driver
// refused the wait. What the work uses is pinned and can not be freed until a wait has succeeded, or the work's context
// has ended.
#pragma once

#include "hooks/operands/accesses.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {

// `home`: the context of the stream. No engine's lock may be held.
void remember_unwaited(const ActiveEngine& owner, const AccessList& accesses, CUcontext home);

// Before the buffer is freed: waits again. An error is the driver's, and the buffer has to stay. Costs nothing as long
// as every wait has succeeded.
CUresult wait_for_unwaited(const ActiveEngine& owner, DeviceAddress at);

// What was submitted in that context has ended with it.
void forget_unwaited_in(CUcontext home);
void forget_unwaited_of(const ActiveEngine& owner);

}  // namespace thermocline
