// SPDX-License-Identifier: Apache-2.0
// The library keeps pinned host memory that it does not use, because pinning is slow. Where another device of the
// process, or the program itself, gets no more, it goes back to the driver, and the request is made once more.
#pragma once

#include "hooks/runtime/guarded.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {

// The other devices give unused host memory back, and what they have claimed but do not need. False: they have not, as
// host_limit was not the reason why the engine refused, or as the driver might wait for work that this thread must let
// go on. For callers within a call of the library that holds no engine.
bool others_give_host_memory_back(const ActiveEngine& mine);
// With host_spill, if that was not enough: their host copies go to their files, until each device has its part of
// host_limit; and then until they have only what copies have to pass through.
bool others_share_host_memory(const ActiveEngine& mine);
bool others_leave_host_memory(const ActiveEngine& mine);

// The same of all engines, for a call of the program that pins memory and was refused.
CUresult again_with_host_room(CUresult refused, Call attempt);

template <class Attempt>
CUresult with_host_room(Attempt attempt) {
  const CUresult result = attempt();
  if (result != CUDA_ERROR_OUT_OF_MEMORY) [[likely]]
    return result;
  return again_with_host_room(result, [&] { return attempt(); });
}

}  // namespace thermocline
