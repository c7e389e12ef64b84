// SPDX-License-Identifier: Apache-2.0
// Copies and sets end where their buffers end. A driver refuses one that begins in memory of cuMemAlloc and ends behind
// it, by the byte and in the call itself (pmodels/mpich#7819: 1504 bytes at byte 1880 of 3368, invalid argument). The
// library's buffers share mappings, so the driver would let it overwrite the neighbor. Whether a driver refuses it in
// memory of pools, too, was not found; the library does.
#pragma once

#include "hooks/operands/accesses.h"
#include "hooks/submit/submit.h"

namespace thermocline {

// CUDA_ERROR_INVALID_VALUE if a range that begins in a buffer ends behind it: the call must not be made, nor a part of
// it. `accesses` are those of the whole operation. Thread-safe; takes the engine's lock.
CUresult refuse_past_an_end(StreamHandle stream, const AccessList& accesses);

}  // namespace thermocline
