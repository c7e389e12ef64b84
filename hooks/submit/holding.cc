// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/holding.h"

#include <chrono>

#include "hooks/capture/capture_state.h"
#include "hooks/runtime/backoff.h"
#include "hooks/submit/late_frees.h"
#include "hooks/submit/multi_device.h"

namespace thermocline {
namespace {

constexpr std::chrono::minutes kLongestFetch{5};

}  // namespace

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
        *active, [&] { return with_backoff([&] { return active->engine->hold_on_device(ranges, reason, &hold); }); });
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
    // Caught because a destructor must not throw: the driver's call has been made.
    return;
  }
}

// An unseen user cannot be made to wait for the fetch. If a host function may block a stream, this very thread may have
// to unblock it; but most host functions do not wait, and work before the copy may take long.
CUresult wait_until_fetched(const ActiveEngine& active, DeviceAddress at) {
  const Engine::HostWait wait = any_stream_may_block() ? Engine::HostWait::kNever : Engine::HostWait::kForEvents;
  const Status status =
      with_backoff([&] { return active.engine->wait_until_fetched(at, wait); }, Backoff(kLongestFetch));
  return static_cast<CUresult>(status.code());
}

void PinnedBuffer::unpin() const noexcept {
  try {
    if (Runtime::get().is_there(active) && !Runtime::get().broken()) active->engine->unpin_unseen(at, number);
  } catch (const BrokenInvariant&) {
    // See above.
    return;
  }
}

CUresult PinnedBuffers::pin_in(const ActiveEngine& active, const AccessList& accesses) {
  const CurrentContext context(active);
  if (context.is_refused()) return CUDA_SUCCESS;
  const Inside inside;
  const CaptureTruce truce;
  for (const MemoryAccess& access : accesses.all()) {
    for (const BufferFacts& buffer : active.engine->meant_by(access)) {
      if (const CUresult result = pin_buffer(active, buffer); result != CUDA_SUCCESS) return result;
    }
  }
  return CUDA_SUCCESS;
}

CUresult PinnedBuffers::pin_buffer(const ActiveEngine& active, const BufferFacts& buffer) {
  if (!numbers_.insert({&active, buffer.number}).second) return CUDA_SUCCESS;
  pinned_.reserve(pinned_.size() + 1);
  const Status status = with_late_frees(
      active, [&] { return with_backoff([&] { return active.engine->pin(buffer.address, reason_); }); });
  if (!status.ok()) return static_cast<CUresult>(status.code());
  pinned_.push_back({&active, buffer.address, buffer.number});
  return wait_until_fetched(active, buffer.address);
}

// Pins in all engines that own a part of the accessed memory, on any device.
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
