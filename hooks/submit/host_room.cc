// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/host_room.h"

#include "hooks/submit/each_engine.h"
#include "hooks/submit/stream_queues.h"

namespace thermocline {

bool others_give_host_memory_back(const ActiveEngine& mine) {
  if (!mine.engine->others_left_too_little_host() || any_stream_may_block()) return false;
  const HeldEngines engines{HeldEngines::FromInside()};
  if (engines.none() || engines->size() < 2) return false;
  for (const ActiveEngine* const other : *engines) {
    if (other == &mine) continue;
    const CurrentContext context(*other);
    if (!context.is_refused()) other->engine->trim_host();
  }
  return true;
}

CUresult again_with_host_room(CUresult refused, Call attempt) {
  if (any_stream_may_block()) return refused;
  Bytes given = 0;
  for_each_engine([&](const EngineSet&, const ActiveEngine& active) { given += active.engine->trim_host(); });
  return given == 0 ? refused : attempt();
}

}  // namespace thermocline
