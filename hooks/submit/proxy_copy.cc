// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/proxy_copy.h"

#include <optional>

#include "driver/locks.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/peers.h"

namespace thermocline {
namespace {

std::optional<CUdevice> device_of(const StreamPlace& place) {
  if (place.here != nullptr) return place.here->device;
  if (place.context == nullptr) return std::nullopt;
  const CurrentContext context(place.context);
  CUdevice device = 0;
  if (real<Function::cuCtxGetDevice>(&device) != CUDA_SUCCESS) return std::nullopt;
  return device;
}

}  // namespace

const ActiveEngine* out_of_reach(const EngineSet& engines, EngineBits owners, const StreamPlace& place) {
  const ActiveEngine* owner = nullptr;
  engines.for_each(owners, [&](const ActiveEngine& active) { owner = &active; });
  if (owner == nullptr || owners != engines.bit_of(owner) || owner == place.here) return nullptr;
  const std::optional<CUdevice> device = device_of(place);
  return !device.has_value() || may_use(*device, owner->device) ? nullptr : owner;
}

CUresult ProxyCopy::come_behind() {
  {
    const CurrentContext context(place_.context);
    if (CUresult result = proxy_->done(stream_); result != CUDA_SUCCESS) return result;
  }
  return proxy_->await_done();
}

CUresult ProxyCopy::come_before() {
  if (CUresult result = proxy_->ready(); result != CUDA_SUCCESS) return result;
  const CurrentContext context(place_.context);
  return proxy_->await_ready(stream_);
}

CUresult ProxyCopy::run(CallIn copy, bool waits) {
  const WaitsInPlace with_the_owner_held;
  if (CUresult result = come_behind(); result != CUDA_SUCCESS) return result;
  if (CUresult result = copy(to_cu(handle())); result != CUDA_SUCCESS) return result;
  // If the stream can not be made to wait for the proxy, the host waits for the copy.
  if (waits || come_before() != CUDA_SUCCESS) return real<Function::cuStreamSynchronize>(to_cu(handle()));
  return CUDA_SUCCESS;
}

ProxyCopy::~ProxyCopy() {
  if (proxy_ == nullptr || proxy_->is_lasting()) return;
  const WaitsInPlace with_the_owner_held;
  try {
    // As in multi_device.cc.
    if (real<Function::cuStreamSynchronize>(to_cu(handle())) == CUDA_SUCCESS) proxy_->end(owner_);
  } catch (const BrokenInvariant&) {
    // Caught because nothing may be thrown from here: the copy has been submitted.
    return;
  }
}

}  // namespace thermocline
