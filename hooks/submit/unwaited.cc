// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/unwaited.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "driver/locks.h"
#include "hooks/capture/capture_state.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/runtime/backoff.h"
#include "hooks/runtime/stream_context.h"

namespace thermocline {
namespace {

struct Entry {
  const ActiveEngine* owner;
  DeviceAddress at;      // of the buffer
  std::uint64_t buffer;  // its number, which no other buffer of the engine gets
  CUcontext home;
  std::uint64_t number;  // a wait covers what was remembered before it began
};

struct Unwaited {
  Mutex mutex{"work that was not waited for", lock_level::kLeaf};
  std::vector<Entry> all THERMOCLINE_GUARDED_BY(mutex);
  std::uint64_t newest THERMOCLINE_GUARDED_BY(mutex) = 0;
};
Unwaited& unwaited() { return process_lifetime<Unwaited>(); }

// Never cleared: if it is set, the driver refuses waits.
std::atomic<bool> any{false};

std::set<CUcontext> homes_of(const ActiveEngine& owner, std::uint64_t buffer, std::uint64_t* newest) {
  Unwaited& remembered = unwaited();
  const MutexLock lock(remembered.mutex);
  std::set<CUcontext> homes;
  for (const Entry& entry : remembered.all) {
    if (entry.owner == &owner && entry.buffer == buffer) homes.insert(entry.home);
  }
  *newest = remembered.newest;
  return homes;
}

// Everything submitted in `home` before has completed.
void has_waited(const ActiveEngine& owner, CUcontext home, std::uint64_t newest) {
  std::vector<std::pair<DeviceAddress, std::uint64_t>> unpinned;
  {
    Unwaited& remembered = unwaited();
    const MutexLock lock(remembered.mutex);
    std::erase_if(remembered.all, [&](const Entry& entry) {
      if (entry.owner != &owner || entry.home != home || entry.number > newest) return false;
      unpinned.emplace_back(entry.at, entry.buffer);
      return true;
    });
  }
  for (const auto& [at, number] : unpinned) owner.engine->unpin(at, number);
}

}  // namespace

void remember_unwaited(const ActiveEngine& owner, const AccessList& accesses, CUcontext home) {
  const CurrentContext context(owner);
  Engine& engine = *owner.engine;
  for (const MemoryAccess& access : accesses.all()) {
    for (const BufferFacts& buffer : engine.meant_by(access)) {
      any.store(true, std::memory_order_release);
      // It is on the device already, so that this needs no room.
      static_cast<void>(with_backoff([&] { return engine.pin(buffer.address, "work that can not be waited for"); }));
      Unwaited& remembered = unwaited();
      const MutexLock lock(remembered.mutex);
      remembered.all.push_back({&owner, buffer.address, buffer.number, home, ++remembered.newest});
    }
  }
}

CUresult wait_for_unwaited(const ActiveEngine& owner, DeviceAddress at) {
  if (!any.load(std::memory_order_acquire)) return CUDA_SUCCESS;
  const std::optional<BufferFacts> buffer = owner.engine->find(at);
  if (!buffer.has_value()) return CUDA_SUCCESS;
  std::uint64_t newest = 0;
  for (CUcontext home : homes_of(owner, buffer->number, &newest)) {
    if (home == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (any_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    CUresult result = CUDA_SUCCESS;
    {
      const CurrentContext context(home);
      result = real<Function::cuCtxSynchronize>();
    }
    if (result != CUDA_SUCCESS) return result;
    has_waited(owner, home, newest);
  }
  return CUDA_SUCCESS;
}

void forget_unwaited_in(CUcontext home) {
  if (!any.load(std::memory_order_acquire)) return;
  Unwaited& remembered = unwaited();
  const MutexLock lock(remembered.mutex);
  std::erase_if(remembered.all, [home](const Entry& entry) { return entry.home == home; });
}

void forget_unwaited_of(const ActiveEngine& owner) {
  if (!any.load(std::memory_order_acquire)) return;
  Unwaited& remembered = unwaited();
  const MutexLock lock(remembered.mutex);
  std::erase_if(remembered.all, [&owner](const Entry& entry) { return entry.owner == &owner; });
}

}  // namespace thermocline
