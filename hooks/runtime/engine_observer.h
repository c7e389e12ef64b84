// SPDX-License-Identifier: Apache-2.0
// What the runtime tells those above it, of which it knows nothing else: that engines and contexts begin and end. Who
// they are stands in one table (hooks/entry/observers.cc). Each is told in the table's order; what is null is left out.
#pragma once

#include <span>

#include "config/settings.h"
#include "hooks/runtime/engines.h"

namespace thermocline {

struct EngineObserver {
  // The settings have been read; no engine exists yet. Under the runtime's lock.
  void (*settings_loaded)(const Settings& settings) = nullptr;
  // An engine was made, and nobody can find it yet. Its context is current. Under the runtime's lock.
  void (*engine_begins)(Engine& engine, CUdevice device) = nullptr;
  // Everybody can find it now. Under the runtime's lock.
  void (*engine_began)(const ActiveEngine& one, const Settings& settings) = nullptr;
  // Nobody finds it any more, and it is about to go. `without_driver`: the driver can not be asked for what is of its
  // context. Without a lock, unless its context is gone already.
  void (*engine_ends)(const ActiveEngine& one, bool without_driver) = nullptr;
  // It is not used any more. Under the runtime's lock.
  void (*engine_ended)(const ActiveEngine& one) = nullptr;
  // A context is about to end, with its streams; `is_gone`: it has. Without a lock.
  void (*context_ends)(CUcontext context, bool is_gone) = nullptr;
  // The same behind the end of its engine, if it had one.
  void (*context_ended)(CUcontext context, bool is_gone) = nullptr;
  // In the child of a fork, which has none of its parent's engines. Under the runtime's lock.
  void (*forked)() = nullptr;
  // Puts what it has counted into the statistics of all engines.
  void (*fill_in)(EngineStatistics* statistics) = nullptr;
};

std::span<const EngineObserver> engine_observers();

// Calls `event` of each observer that has it.
template <class... Parameters, class... Arguments>
void notify(void (*EngineObserver::*event)(Parameters...), Arguments&&... arguments) {
  for (const EngineObserver& observer : engine_observers()) {
    if (observer.*event != nullptr) (observer.*event)(arguments...);
  }
}

}  // namespace thermocline
