// SPDX-License-Identifier: Apache-2.0
#include "hooks/kept.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <set>

namespace thermocline {
namespace {

struct Kept {
  std::mutex mutex;
  std::set<std::uint64_t> numbers;  // of buffers; a number never comes again in an engine
};
Kept& kept() {
  static auto* const all = new Kept;
  return *all;
}

std::atomic<bool> any{false};

}  // namespace

void remember_kept(const Engine& engine, const TouchList& touches) {
  const std::lock_guard lock(kept().mutex);
  for (const Touch& touch : touches.all()) {
    if (const std::optional<BufferFacts> buffer = engine.find(touch.address)) kept().numbers.insert(buffer->number);
  }
  any.store(true, std::memory_order_release);
}

bool forget_kept(const Engine& engine, DeviceAddress address) {
  if (!any.load(std::memory_order_acquire)) return false;
  const std::optional<BufferFacts> buffer = engine.find(address);
  if (!buffer.has_value()) return false;
  const std::lock_guard lock(kept().mutex);
  return kept().numbers.erase(buffer->number) != 0;
}

}  // namespace thermocline
