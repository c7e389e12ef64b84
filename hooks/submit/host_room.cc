// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/host_room.h"

#include <cstddef>

#include "hooks/submit/each_engine.h"
#include "hooks/submit/stream_queues.h"

namespace thermocline {

namespace {

// Whether any of the others gave something, or may have.
template <class Give>
bool any_other_gives(const ActiveEngine& mine, Give give) {
  if (!mine.engine->others_left_too_little_host() || any_stream_may_block()) return false;
  const HeldEngines engines{HeldEngines::FromInside()};
  if (engines.none() || engines->size() < 2) return false;
  bool any = false;
  for (const ActiveEngine* const other : *engines) {
    if (other == &mine) continue;
    const CurrentContext context(*other);
    if (!context.is_refused() && give(*other->engine, engines->size())) any = true;
  }
  return any;
}

}  // namespace

bool others_give_host_memory_back(const ActiveEngine& mine) {
  return any_other_gives(mine, [](Engine& other, std::size_t) {
    other.trim_host();
    return true;
  });
}

bool others_share_host_memory(const ActiveEngine& mine) {
  return any_other_gives(mine, [](Engine& other, std::size_t sharers) { return other.leave_host(sharers); });
}

bool others_leave_host_memory(const ActiveEngine& mine) {
  return any_other_gives(mine, [](Engine& other, std::size_t) { return other.leave_host(0); });
}

CUresult again_with_host_room(CUresult refused, Call attempt) {
  if (any_stream_may_block()) return refused;
  Bytes given = 0;
  for_each_engine([&](const EngineSet&, const ActiveEngine& active) { given += active.engine->trim_host(); });
  return given == 0 ? refused : attempt();
}

}  // namespace thermocline
