// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/ends.h"

#include <algorithm>

#include "hooks/diagnostics/misuse.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/multi_device.h"

namespace thermocline {
namespace {

bool goes_past_its_end(const EngineSet& engines, const MemoryAccess& access) {
  if (access.bytes == 0) return false;
  const ActiveEngine* const owner = engines.owner(access.address);
  if (owner == nullptr) return false;
  const std::optional<BufferFacts> buffer = owner->engine->find(access.address);
  return buffer.has_value() && access.bytes > buffer->bytes - (access.address - buffer->address);
}

}  // namespace

CUresult refuse_past_an_end(StreamHandle stream, const AccessList& accesses) {
  if (engines_now() == nullptr || Runtime::get().broken()) return CUDA_SUCCESS;
  return guarded([&] {
    const HeldEngines engines;
    const bool refused = !engines.none() && std::ranges::any_of(accesses.all(), [&](const MemoryAccess& access) {
      return goes_past_its_end(*engines, access);
    });
    if (refused && watches_misuse()) look_at(accesses, stream);
    return refused ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

}  // namespace thermocline
