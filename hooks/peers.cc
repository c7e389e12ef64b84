// SPDX-License-Identifier: Apache-2.0
#include "hooks/peers.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hooks/engines.h"

namespace thermocline {
namespace {

// By the device whose memory it is, bits for those that may use it.
std::array<std::atomic<std::uint64_t>, EngineSet::kMost> users{};

bool is_known(CUdevice device) noexcept { return device >= 0 && static_cast<std::size_t>(device) < EngineSet::kMost; }

}  // namespace

bool may_use(CUdevice device, CUdevice memory_of) noexcept {
  if (device == memory_of) return true;
  if (!is_known(device) || !is_known(memory_of)) return false;
  return (users[static_cast<std::size_t>(memory_of)].load(std::memory_order_acquire) >> device & 1) != 0;
}

}  // namespace thermocline
