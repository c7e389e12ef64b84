// SPDX-License-Identifier: Apache-2.0
// How the runtime notifies modules above it, which it does not know, when engines and contexts begin and end. The table
// of observers is in hooks/entry/observers.cc; they are notified in its order. Null members are skipped.
#pragma once

#include <span>

#include "config/settings.h"
#include "hooks/runtime/engines.h"

namespace thermocline {

struct EngineObserver {
  // The settings have been read; no engine exists yet. Under the runtime's lock.
  void (*settings_loaded)(const Settings& settings) = nullptr;
  // An engine has been created but is not published yet. Its context is current. Under the runtime's lock.
  void (*engine_begins)(Engine& engine, CUdevice device) = nullptr;
  // An engine is about to be created with these options. Under the runtime's lock.
  void (*engine_options)(EngineOptions* options) = nullptr;
  // The engine has been published. Under the runtime's lock.
  void (*engine_began)(const ActiveEngine& one, const Settings& settings) = nullptr;
  // A device that cannot have an engine has got a heap (caching_heaps.h). Under the runtime's lock.
  void (*caching_heap_began)(const Settings& settings) = nullptr;
  // The engine is about to refuse a request for lack of memory: the observer frees what it can. Without a lock.
  void (*memory_is_short)(const ActiveEngine& one) = nullptr;
  // The engine is no longer published and is about to be destroyed. `without_driver`: the driver cannot be asked about
  // anything in its context. Without a lock, unless the context no longer exists.
  void (*engine_ends)(const ActiveEngine& one, bool without_driver) = nullptr;
  // The engine is no longer used by anybody. Under the runtime's lock.
  void (*engine_ended)(const ActiveEngine& one) = nullptr;
  // A context is about to end, with its streams; `is_gone`: it has ended. Without a lock.
  void (*context_ends)(CUcontext context, bool is_gone) = nullptr;
  // A context has ended, and before it the context's engine, if it had one.
  void (*context_ended)(CUcontext context, bool is_gone) = nullptr;
  // In the child of a fork, which has none of its parent's engines. Under the runtime's lock.
  void (*forked)() = nullptr;
  // Adds the observer's counters to the statistics of all engines.
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
