// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/sync_memops.h"

#include <atomic>
#include <map>
#include <utility>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {
namespace {

// By engine and buffer number, which an engine never reuses. `any` is read without the lock, because hardly any program
// sets the attribute.
struct Synchronous {
  Mutex mutex{"attributes of buffers", lock_level::kSyncMemops};
  std::map<std::pair<const ActiveEngine*, std::uint64_t>, DeviceAddress> buffers THERMOCLINE_GUARDED_BY(mutex);
  std::atomic<bool> any{false};
};
Synchronous& all() { return process_lifetime<Synchronous>(); }

}  // namespace

void set_synchronous(const ActiveEngine& active, const BufferFacts& buffer, bool on) {
  const MutexLock lock(all().mutex);
  std::erase_if(all().buffers, [&](const auto& entry) {
    const auto& [engine, number] = entry.first;
    if (engine != &active) return !Runtime::get().is_there(engine);
    const auto found = active.engine->find(entry.second);
    return !found.has_value() || found->number != number;
  });
  if (on) {
    all().buffers[{&active, buffer.number}] = buffer.address;
  } else {
    all().buffers.erase({&active, buffer.number});
  }
  all().any.store(!all().buffers.empty(), std::memory_order_release);
}

bool is_synchronous(const ActiveEngine& active, const BufferFacts& buffer) {
  if (!all().any.load(std::memory_order_acquire)) return false;
  const MutexLock lock(all().mutex);
  return all().buffers.contains({&active, buffer.number});
}

bool any_is_synchronous(const EngineSet& engines, const AccessList& accesses) {
  if (!all().any.load(std::memory_order_acquire)) return false;
  for (const MemoryAccess& access : accesses.all()) {
    const ActiveEngine* const owner = engines.owner(access.address);
    if (owner == nullptr) continue;
    const auto buffer = owner->engine->find(access.address);
    if (buffer.has_value() && is_synchronous(*owner, *buffer)) return true;
  }
  return false;
}

}  // namespace thermocline
