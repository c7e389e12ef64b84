// SPDX-License-Identifier: Apache-2.0
#include "hooks/sync_memops.h"

#include <atomic>
#include <map>
#include <mutex>

namespace thermocline {
namespace {

// By the buffer's number, which is never given twice. `any` is read without the lock: hardly a program sets the switch.
struct Synchronous {
  std::mutex mutex;
  std::map<std::uint64_t, DeviceAddress> buffers;
  std::atomic<bool> any{false};
};
Synchronous& all() {
  static auto* const synchronous = new Synchronous;
  return *synchronous;
}

}  // namespace

void set_synchronous(const Engine& engine, const BufferFacts& buffer, bool on) {
  const std::lock_guard lock(all().mutex);
  std::erase_if(all().buffers, [&](const auto& entry) {
    const auto found = engine.find(entry.second);
    return !found.has_value() || found->number != entry.first;
  });
  if (on) {
    all().buffers[buffer.number] = buffer.address;
  } else {
    all().buffers.erase(buffer.number);
  }
  all().any.store(!all().buffers.empty(), std::memory_order_release);
}

bool is_synchronous(const BufferFacts& buffer) {
  if (!all().any.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(all().mutex);
  return all().buffers.contains(buffer.number);
}

bool any_is_synchronous(const Engine& engine, const TouchList& touches) {
  if (!all().any.load(std::memory_order_acquire)) return false;
  for (const Touch& touch : touches.all()) {
    const auto buffer = engine.find(touch.address);
    if (buffer.has_value() && is_synchronous(*buffer)) return true;
  }
  return false;
}

}  // namespace thermocline
