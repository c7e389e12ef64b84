// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/holding.h"

#include <optional>

#include "hooks/capture/capture_state.h"
#include "hooks/runtime/backoff.h"
#include "hooks/submit/late_frees.h"
#include "hooks/submit/multi_device.h"

namespace thermocline {

CUresult HeldForCall::hold(const EngineSet& engines, const AccessList& accesses, const char* reason) {
  for (const ActiveEngine* const active : engines) {
    const AccessList part = part_of(accesses, *active);
    if (part.empty()) continue;
    const CurrentContext context(*active);
    if (context.is_refused()) return CUDA_SUCCESS;
    const Inside inside;
    const CaptureTruce truce;
    std::vector<AddressRange> ranges;
    for (const MemoryAccess& access : part.all()) {
      ranges.push_back({access.address, access.bytes});
    }
    if (ranges.empty()) continue;
    held_.reserve(held_.size() + 1);
    std::uint64_t hold = 0;
    const Status status = with_late_frees(
        *active, [&] { return patiently([&] { return active->engine->hold_on_device(ranges, reason, &hold); }); });
    if (!status.ok()) return static_cast<CUresult>(status.code());
    held_.emplace_back(active, hold);
  }
  return CUDA_SUCCESS;
}

HeldForCall::~HeldForCall() {
  try {
    for (const auto& [active, hold] : held_) {
      if (Runtime::get().is_there(active) && !Runtime::get().broken()) active->engine->let_go(hold);
    }
  } catch (const BrokenInvariant&) {
    // Declared already: the driver's call has been made, and nothing may be thrown from here.
    return;
  }
}

// Whoever is not seen can not be made to wait for what brings it. Where a host function may block a stream, this very thread
// may be the one that lets it go on.
CUresult wait_until_fetched(const ActiveEngine& active, DeviceAddress at) {
  const Engine::HostWait wait = any_stream_may_block() ? Engine::HostWait::kNever : Engine::HostWait::kForEvents;
  const Status status = patiently([&] { return active.engine->wait_until_fetched(at, wait); });
  return static_cast<CUresult>(status.code());
}

void PinnedBuffer::unpin() const noexcept {
  try {
    if (Runtime::get().is_there(active) && !Runtime::get().broken()) active->engine->unpin_unseen(at, number);
  } catch (const BrokenInvariant&) {
    // As above.
    return;
  }
}

// An address may be one past the end of a buffer, where there need not be another one: only addresses in live buffers
// are pinned.
CUresult PinnedBuffers::pin_in(const ActiveEngine& active, const AccessList& accesses) {
  const CurrentContext context(active);
  if (context.is_refused()) return CUDA_SUCCESS;
  const Inside inside;
  const CaptureTruce truce;
  for (const MemoryAccess& access : accesses.all()) {
    const std::optional<BufferFacts> buffer = active.engine->find(access.address);
    if (!buffer.has_value() || !numbers_.insert({&active, buffer->number}).second) continue;
    pinned_.reserve(pinned_.size() + 1);
    const Status status = with_late_frees(
        active, [&] { return patiently([&] { return active.engine->pin(buffer->address, reason_); }); });
    if (!status.ok()) return static_cast<CUresult>(status.code());
    pinned_.push_back({&active, buffer->address, buffer->number});
    if (const CUresult there = wait_until_fetched(active, buffer->address); there != CUDA_SUCCESS) return there;
  }
  return CUDA_SUCCESS;
}

// The same in all engines that own a part of it, on whichever device.
CUresult PinnedBuffers::pin(const EngineSet& engines, const AccessList& accesses, const char* reason) {
  reason_ = reason;
  for (const ActiveEngine* active : engines) {
    const AccessList part = part_of(accesses, *active);
    if (part.empty()) continue;
    if (const CUresult result = pin_in(*active, part); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

void PinnedBuffers::stay() {
  for (const PinnedBuffer& buffer : pinned_) buffer.active->engine->keep_pinned(buffer.at, buffer.number);
}

PinnedBuffers::~PinnedBuffers() {
  for (const PinnedBuffer& buffer : pinned_) buffer.unpin();
}

}  // namespace thermocline
