// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/holding.h"

#include "hooks/capture/capture_state.h"
#include "hooks/runtime/backoff.h"

namespace thermocline {

CUresult HeldForCall::hold(const EngineSet& engines, const AccessList& accesses, const char* reason) {
  for (const MemoryAccess& access : accesses.all()) {
    const ActiveEngine* const active = engines.owner(access.address);
    if (active == nullptr) continue;
    const CurrentContext context(*active);
    if (context.is_refused()) return CUDA_SUCCESS;
    const Inside inside;
    const CaptureTruce truce;
    // An address may be one past the end of a buffer, where there need not be another one.
    if (!active->engine->find(access.address).has_value()) continue;
    held_.reserve(held_.size() + 1);
    std::uint64_t hold = 0;
    const AddressRange range{access.address, access.bytes};
    const Status status = patiently([&] { return active->engine->hold_on_device(range, reason, &hold); });
    if (!status.ok()) return static_cast<CUresult>(status.code());
    held_.emplace_back(active, hold);
  }
  return CUDA_SUCCESS;
}

HeldForCall::~HeldForCall() {
  try {
    for (const auto& [active, hold] : held_) {
      if (Runtime::get().is_there(active) && !Runtime::get().broken()) active->engine->let_go(hold);
    }
  } catch (const BrokenInvariant&) {
    // Declared already: the driver's call has been made, and nothing may be thrown from here.
    return;
  }
}

}  // namespace thermocline
