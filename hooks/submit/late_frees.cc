// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/late_frees.h"

#include <atomic>
#include <map>
#include <set>
#include <utility>

#include "driver/locks.h"
#include "hooks/capture/capture_state.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/submit/submit.h"

namespace thermocline {
namespace {

struct Late {
  Mutex mutex{"late frees", lock_level::kLeaf};
  // By engine and buffer: whether somebody is waiting for it now. Entries of engines that have ended are ignored.
  std::map<std::pair<const ActiveEngine*, std::uint64_t>, bool> all THERMOCLINE_GUARDED_BY(mutex);
};
Late& late() { return process_lifetime<Late>(); }

std::atomic<bool> any{false};

}  // namespace

void free_later(const ActiveEngine& active, DeviceAddress at) {
  const MutexLock lock(late().mutex);
  late().all.insert_or_assign({&active, at.value}, false);
  any.store(true, std::memory_order_release);
}

bool is_freed_late(const ActiveEngine& active, DeviceAddress at) {
  if (!any.load(std::memory_order_acquire)) return false;
  const MutexLock lock(late().mutex);
  return late().all.contains({&active, at.value});
}

LateFrees::LateFrees(const ActiveEngine& active) : active_(active) {
  if (!any.load(std::memory_order_acquire)) return;
  const MutexLock lock(late().mutex);
  for (auto& [key, awaited] : late().all) {
    if (key.first != &active || std::exchange(awaited, true)) continue;
    taken_.push_back(DeviceAddress{key.second});
  }
}

LateFrees::~LateFrees() {
  if (taken_.empty()) return;
  const MutexLock lock(late().mutex);
  for (const DeviceAddress at : taken_) late().all.insert_or_assign({&active_, at.value}, false);
}

void LateFrees::waited() {
  if (!taken_.empty()) {
    const MutexLock lock(late().mutex);
    for (const DeviceAddress at : taken_) late().all.erase({&active_, at.value});
    if (late().all.empty()) any.store(false, std::memory_order_release);
  }
  // Must not happen earlier: as soon as the engine has freed it, another thread may be given the address, and free
  // that.
  for (const DeviceAddress at : std::exchange(taken_, {})) static_cast<void>(active_.engine->free(at, std::nullopt));
}

bool wait_for_late_frees(const ActiveEngine& active) {
  LateFrees frees(active);
  if (frees.none() || synchronize_unless_recorded(active) != CUDA_SUCCESS) return false;
  frees.waited();
  return true;
}

}  // namespace thermocline
