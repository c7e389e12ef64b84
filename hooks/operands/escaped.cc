// SPDX-License-Identifier: Apache-2.0
#include "hooks/operands/escaped.h"

#include <atomic>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"

namespace thermocline {
namespace {

struct Kept {
  Mutex mutex{"escaped buffers", lock_level::kLeaf};
  // By engine and number of the buffer; an engine never reuses a number.
  std::set<std::pair<const Engine*, std::uint64_t>> numbers THERMOCLINE_GUARDED_BY(mutex);
};
Kept& kept() { return process_lifetime<Kept>(); }

std::atomic<bool> any{false};

}  // namespace

void remember_kept(const Engine& engine, const AccessList& accesses) {
  for (const MemoryAccess& access : accesses.all()) {
    const std::vector<BufferFacts> meant = engine.meant_by(access);
    const MutexLock lock(kept().mutex);
    for (const BufferFacts& buffer : meant) kept().numbers.insert({&engine, buffer.number});
  }
  any.store(true, std::memory_order_release);
}

bool is_kept(const Engine& engine, DeviceAddress address) {
  if (!any.load(std::memory_order_acquire)) return false;
  const std::optional<BufferFacts> buffer = engine.find(address);
  if (!buffer.has_value()) return false;
  const MutexLock lock(kept().mutex);
  return kept().numbers.contains({&engine, buffer->number});
}

bool forget_kept(const Engine& engine, DeviceAddress address) {
  if (!any.load(std::memory_order_acquire)) return false;
  const std::optional<BufferFacts> buffer = engine.find(address);
  if (!buffer.has_value()) return false;
  const MutexLock lock(kept().mutex);
  return kept().numbers.erase({&engine, buffer->number}) != 0;
}

}  // namespace thermocline
