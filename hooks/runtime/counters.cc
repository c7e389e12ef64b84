// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/counters.h"

#include <array>
#include <atomic>
#include <cstddef>

namespace thermocline {
namespace {

std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Counter::kCount)> counters{};

}  // namespace

void count(Counter counter) noexcept {
  counters[static_cast<std::size_t>(counter)].fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t counted(Counter counter) noexcept {
  return counters[static_cast<std::size_t>(counter)].load(std::memory_order_relaxed);
}

}  // namespace thermocline
