// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/late_frees.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "driver/locks.h"
#include "hooks/capture/captures.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/runtime/engine_observer.h"
#include "hooks/submit/submit.h"

namespace thermocline {
namespace {

struct Late {
  Mutex mutex{"late frees", lock_level::kLeaf};
  // By engine and buffer: whether somebody is waiting for it now. Entries of engines that have ended are ignored.
  std::map<std::pair<const ActiveEngine*, std::uint64_t>, bool> all THERMOCLINE_GUARDED_BY(mutex);
  std::map<std::pair<const ActiveEngine*, CUtexObject>, bool> textures THERMOCLINE_GUARDED_BY(mutex);  // likewise
  std::vector<PinnedBuffer> unpins THERMOCLINE_GUARDED_BY(mutex);  // that nobody is waiting for
};
Late& late() { return process_lifetime<Late>(); }

std::atomic<bool> any{false};

// Returns the engine's entries that nobody is waiting for yet, and marks them as awaited.
template <class Key, class Entries>
std::vector<Key> take(const ActiveEngine& active, Entries& entries) {
  std::vector<Key> taken;
  for (auto& [key, awaited] : entries) {
    if (key.first == &active && !std::exchange(awaited, true)) taken.push_back(Key{key.second});
  }
  return taken;
}

}  // namespace

void free_later(const ActiveEngine& active, DeviceAddress at) {
  const MutexLock lock(late().mutex);
  late().all.insert_or_assign({&active, at.value}, false);
  any.store(true, std::memory_order_release);
}

void unpin_later(const std::vector<PinnedBuffer>& pinned) {
  if (pinned.empty()) return;
  std::vector<PinnedBuffer> twice;
  {
    const MutexLock lock(late().mutex);
    for (const PinnedBuffer& buffer : pinned) {
      const bool is_there = std::ranges::any_of(late().unpins, [&](const PinnedBuffer& other) {
        return other.active == buffer.active && other.number == buffer.number;
      });
      (is_there ? twice : late().unpins).push_back(buffer);
    }
    any.store(true, std::memory_order_release);
  }
  // One of the two pins is enough, so the list grows no longer than there are buffers.
  for (const PinnedBuffer& buffer : twice) buffer.unpin();
}

bool is_freed_late(const ActiveEngine& active, DeviceAddress at) {
  if (!any.load(std::memory_order_acquire)) return false;
  const MutexLock lock(late().mutex);
  return late().all.contains({&active, at.value});
}

bool destroy_texture_later(const ActiveEngine& active, CUtexObject texture) {
  if (!any.load(std::memory_order_acquire)) return false;
  const MutexLock lock(late().mutex);
  const auto is_of_engine = [&](const auto& entry) { return entry.first.first == &active; };
  if (!std::ranges::any_of(late().all, is_of_engine)) return false;
  late().textures.insert_or_assign({&active, texture}, false);
  return true;
}

bool is_destroyed_late(const ActiveEngine& active, CUtexObject texture) {
  if (!any.load(std::memory_order_acquire)) return false;
  const MutexLock lock(late().mutex);
  return late().textures.contains({&active, texture});
}

void is_a_new_texture(const ActiveEngine& active, CUtexObject texture) {
  if (!any.load(std::memory_order_acquire)) return;
  const MutexLock lock(late().mutex);
  late().textures.erase({&active, texture});
}

LateFrees::LateFrees(const ActiveEngine& active) : active_(active) {
  if (!any.load(std::memory_order_acquire)) return;
  const MutexLock lock(late().mutex);
  taken_ = take<DeviceAddress>(active, late().all);
  textures_ = take<CUtexObject>(active, late().textures);
  const auto of_others = [&](const PinnedBuffer& buffer) { return buffer.active != &active_; };
  const auto mine = std::stable_partition(late().unpins.begin(), late().unpins.end(), of_others);
  unpins_.assign(mine, late().unpins.end());
  late().unpins.erase(mine, late().unpins.end());
}

LateFrees::~LateFrees() {
  unpin_later(unpins_);
  if (taken_.empty() && textures_.empty()) return;
  const MutexLock lock(late().mutex);
  for (const DeviceAddress at : taken_) late().all.insert_or_assign({&active_, at.value}, false);
  for (const CUtexObject texture : textures_) {
    if (const auto found = late().textures.find({&active_, texture}); found != late().textures.end())
      found->second = false;
  }
}

void LateFrees::waited() {
  {
    const MutexLock lock(late().mutex);
    for (const DeviceAddress at : taken_) late().all.erase({&active_, at.value});
    // A texture that is not in the list any more was replaced: the driver has reused its handle (is_a_new_texture).
    std::vector<CUtexObject> there;
    for (const CUtexObject texture : textures_) {
      if (late().textures.erase({&active_, texture}) > 0) there.push_back(texture);
    }
    textures_ = std::move(there);
    const bool none = late().all.empty() && late().textures.empty() && late().unpins.empty();
    if (none) any.store(false, std::memory_order_release);
  }
  // Handles belong to a context.
  std::optional<CurrentContext> context;
  if (!textures_.empty()) context.emplace(active_);
  // Textures are destroyed before their memory is reused.
  for (const CUtexObject texture : std::exchange(textures_, {})) {
    static_cast<void>(real<Function::cuTexObjectDestroy>(texture));
  }
  for (const PinnedBuffer& buffer : std::exchange(unpins_, {})) buffer.unpin();
  // Must not happen earlier: as soon as the engine has freed the buffer, another thread may be given the address, and
  // free that one.
  for (const DeviceAddress at : std::exchange(taken_, {})) static_cast<void>(active_.engine->free(at, std::nullopt));
}

bool wait_for_late_frees(const ActiveEngine& active) {
  LateFrees frees(active);
  if (frees.none() || captures().synchronize(active) != CUDA_SUCCESS) return false;
  frees.waited();
  return true;
}

bool make_way(const ActiveEngine& active) {
  const Bytes before = active.engine->statistics().external_bytes;
  notify(&EngineObserver::memory_is_short, active);
  const bool less = active.engine->statistics().external_bytes < before;
  return wait_for_late_frees(active) || less;
}

}  // namespace thermocline
