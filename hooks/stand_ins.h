// SPDX-License-Identifier: Apache-2.0
// Copies in a stream of another device than the memory's. A driver does them in any stream; memory that is mapped, as
// ours is, is open to its own device alone, and the copy would meet an illegal address. So it is done in the shadow of
// the stream (shadows.h), which waits for what the stream was given before, and for which the stream waits behind it.
#pragma once

#include "hooks/places.h"
#include "hooks/submit.h"

namespace thermocline {

// The engine that all of it belongs to, where the stream's device may not use that engine's memory; else null.
// `owners`: whose memory it is.
const ActiveEngine* out_of_reach(const EngineSet& engines, EngineBits owners, const StreamPlace& place);

// Calls `copy` with a stream in which the owner's memory can be reached, in the place of `stream`.
CUresult copy_in_shadow(const ActiveEngine& owner, const StreamPlace& place, StreamHandle stream, Host host,
                        const TouchList& touches, const OperationInfo& info, CallIn copy);

}  // namespace thermocline
