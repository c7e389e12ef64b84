// SPDX-License-Identifier: Apache-2.0
// Copies and sets must end where their buffers end. A driver refuses one that begins in memory of cuMemAlloc and ends
// beyond it, exactly to the byte and in the call itself (pmodels/mpich#7819: 1504 bytes at byte 1880 of 3368, invalid
// argument). The library's buffers share mappings, so the driver would let it overwrite the neighbor. It is not known
// whether a driver also refuses it in memory of pools; the library does.
#pragma once

#include "hooks/operands/accesses.h"
#include "hooks/submit/submit.h"

namespace thermocline {

// CUDA_ERROR_INVALID_VALUE if a range that begins in a buffer ends beyond it: then neither the call nor a part of it
// may be made. `accesses`: those of the whole operation. Thread-safe; takes the engine's lock.
CUresult refuse_past_an_end(StreamHandle stream, const AccessList& accesses);

}  // namespace thermocline
