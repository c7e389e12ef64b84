// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/peers.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hooks/capture/capture_state.h"
#include "hooks/submit/submit.h"

namespace thermocline {
namespace {

// For each device that owns memory, one bit per device that may use it.
std::array<std::atomic<std::uint64_t>, EngineSet::kMost> users{};

bool is_known(CUdevice device) noexcept { return device >= 0 && static_cast<std::size_t>(device) < EngineSet::kMost; }

}  // namespace

bool may_use(CUdevice device, CUdevice memory_of) noexcept {
  if (device == memory_of) return true;
  if (!is_known(device) || !is_known(memory_of)) return false;
  return (users[static_cast<std::size_t>(memory_of)].load(std::memory_order_acquire) >> device & 1) != 0;
}

void open(Engine& engine, CUdevice device, CUdevice memory_of) {
  if (engine.open_to(device).ok()) return;
  log_line(LogLevel::kWarning,
           "device %d can not be let use the memory of device %d: what it accesses there is an illegal address", device,
           memory_of);
}

void lets_use(CUdevice device, CUdevice memory_of) {
  if (device == memory_of || !is_known(device) || !is_known(memory_of)) return;
  users[static_cast<std::size_t>(memory_of)].fetch_or(std::uint64_t{1} << device);
  // An engine that begins after this sees the bit.
  Runtime::get().for_each([&](const ActiveEngine& active) {
    if (active.device != memory_of) return;
    const CurrentContext context(active);
    const Inside inside;
    const CaptureTruce truce;
    open(*active.engine, device, memory_of);
  });
}

void open_to_peers(Engine& engine, CUdevice memory_of) {
  if (!is_known(memory_of)) return;
  std::uint64_t bits = users[static_cast<std::size_t>(memory_of)].load();
  for (; bits != 0; bits &= bits - 1) open(engine, static_cast<CUdevice>(__builtin_ctzll(bits)), memory_of);
}

void forget_peers_of(CUdevice memory_of) noexcept {
  if (is_known(memory_of)) users[static_cast<std::size_t>(memory_of)].store(0);
}

}  // namespace thermocline
