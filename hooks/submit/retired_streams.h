// SPDX-License-Identifier: Apache-2.0
// Forgets what the library remembers of streams that are about to end.
#pragma once

#include "hooks/interpose/cuda_api.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {

// `here`: the engine of the stream's context; null: any engine may know it.
void retire_stream(const EngineSet& engines, StreamHandle stream, const ActiveEngine* here);

// Every stream of the context, which must not be an engine's context.
void retire_streams_of(CUcontext context);

}  // namespace thermocline
