// SPDX-License-Identifier: Apache-2.0
#include "hooks/graphs/stored_addresses.h"

#include <algorithm>

#include "hooks/capture/capture_state.h"
#include "hooks/pointers/uploads.h"
#include "hooks/runtime/runtime.h"
#include "hooks/submit/multi_device.h"

namespace thermocline {
namespace {

bool kernels_store_more(const EngineSet& engines, const GraphAccess& access, MayKeep may_keep) {
  const Inside inside;
  const CaptureTruce truce;
  bool more = false;
  for (const ActiveEngine* active : engines) {
    const CurrentContext context(*active);
    more |= active->engine->written_by_graph(access.kernels, may_keep == MayKeep::kYes);
  }
  return more;
}

bool any_stored(const EngineSet& engines) {
  return std::ranges::any_of(engines, [](const ActiveEngine* active) { return active->engine->has_references(); });
}

}  // namespace

void name_stored_sources(const EngineSet& engines, GraphAccess& access) {
  if (!any_stored(engines)) return;
  for (const Move& move : access.moves) {
    const ActiveEngine* const owner = engines.owner(DeviceAddress{move.from});
    if (owner != nullptr && owner->engine->may_be_stored_in(span_of_source(move)))
      access.accesses.found_word(move.from);
  }
}

// A kernel may take addresses from a table that another one has written, or a copy has filled, and the other way round. So
// all are told again until nothing is new. Each time at least one table holds more than before.
void note_stored_addresses(const GraphAccess& access, MayKeep may_keep) {
  const HeldEngines engines;
  if (engines.none() || (access.kernels.empty() && access.moves.empty())) return;
  const std::size_t most = access.kernels.size() + access.moves.size();
  bool more = !access.kernels.empty() && kernels_store_more(*engines, access, may_keep);
  if (access.moves.empty() && !more) return;
  for (std::size_t pass = 0; pass <= most && any_stored(*engines); ++pass) {
    carry_along(*engines, access.moves);
    if (access.kernels.empty() || !kernels_store_more(*engines, access, may_keep)) return;
  }
}

}  // namespace thermocline
