// SPDX-License-Identifier: Apache-2.0
// Buffers with CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: a memory operation that is not asynchronous by name waits for its end
// if it accesses such a buffer, even between device addresses (CUDA driver API, cuPointerSetAttribute). The driver
// knows the engine's buffers only as mappings, so the attribute is stored here; it lasts as long as the buffer.
#pragma once

#include "hooks/operands/accesses.h"
#include "hooks/runtime/engines.h"

namespace thermocline {

void set_synchronous(const ActiveEngine& active, const BufferFacts& buffer, bool on);
bool is_synchronous(const ActiveEngine& active, const BufferFacts& buffer);
bool any_is_synchronous(const EngineSet& engines, const AccessList& accesses);

}  // namespace thermocline
