// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/driver_room.h"

#include <algorithm>

#include "hooks/runtime/backoff.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/each_engine.h"
#include "hooks/submit/heap_memory.h"

namespace thermocline {
namespace {

// Most of what the driver allocates at a time is small: code, stacks, page tables. The room is doubled with each
// attempt.
constexpr Bytes kLeastRoom = Bytes{2} << 20;  // the driver's granularity (cuMemGetAllocationGranularity)
constexpr Bytes kFirstRoom = Bytes{64} << 20;

thread_local bool is_out_of_memory = false;

}  // namespace

void driver_is_out_of_memory() noexcept { is_out_of_memory = true; }

DriverRoom::~DriverRoom() {
  if (!began_) return;
  for_each_engine([this](const EngineSet&, const ActiveEngine& active) {
    const OfDevice& left = left_[active.device];
    for (unsigned i = 0; left.engine == &active && i < left.times; ++i) active.engine->take_again();
  });
}

// Doubles the room each time, as far as buffers can be evicted.
bool DriverRoom::grow_on(const ActiveEngine& active) {
  const EngineStatistics now = active.engine->statistics();
  OfDevice& left = left_[active.device];
  if (left.engine != &active) left = {.engine = &active};
  const Bytes first = std::clamp(now.device_bytes / 32, kLeastRoom, kFirstRoom);
  const Bytes more = std::max(left.bytes, first);
  if (now.device_bytes <= now.external_bytes) return false;
  if (!with_backoff([&] { return active.engine->leave_free(more); }).ok()) return false;
  left.bytes += more;
  ++left.times;
  return true;
}

// Unused pages of the engine, or cached memory, may be enough.
bool DriverRoom::grow() {
  bool grew = empty_caches();
  const bool is_first = !began_;
  began_ = true;
  for_each_engine([&](const EngineSet&, const ActiveEngine& active) {
    grew |= is_first ? active.engine->trim().ok() : grow_on(active);
  });
  return grew;
}

CUresult again_with_driver_room(Call attempt) {
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  DriverRoom room;
  while (result == CUDA_ERROR_OUT_OF_MEMORY && is_out_of_memory && room.grow()) {
    is_out_of_memory = false;
    result = attempt();
  }
  is_out_of_memory = false;
  return result;
}

}  // namespace thermocline
