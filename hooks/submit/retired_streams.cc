// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/retired_streams.h"

#include <set>

#include "hooks/runtime/stream_context.h"
#include "hooks/submit/proxy_streams.h"
#include "hooks/submit/stream_queues.h"

namespace thermocline {

void retire_stream(const EngineSet& engines, StreamHandle stream, const ActiveEngine* here) {
  const Inside inside;
  for (const ActiveEngine* active : engines) {
    if (here != nullptr && active != here) continue;
    const CurrentContext context(*active);
    active->engine->retire(stream);
  }
  end_proxy_streams_of(stream);
}

void retire_streams_of(CUcontext context) {
  end_queues_in(context, false);
  forget_contexts_of_streams();
  const HeldEngines engines;
  if (engines.none()) return;
  std::set<StreamHandle> ended;
  for (const ActiveEngine* active : *engines) {
    const Inside inside;
    const CurrentContext of_engine(*active);
    for (const StreamHandle stream : active->engine->streams()) {
      CUcontext of_stream = nullptr;
      if (!is_explicit(stream) || real<Function::cuStreamGetCtx>(to_cu(stream), &of_stream) != CUDA_SUCCESS) continue;
      if (of_stream == context) ended.insert(stream);
    }
  }
  for (const StreamHandle stream : ended) retire_stream(*engines, stream, nullptr);
}

}  // namespace thermocline
