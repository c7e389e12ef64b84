// SPDX-License-Identifier: Apache-2.0
#include "hooks/stand_ins.h"

#include <optional>

#include "hooks/patience.h"
#include "hooks/peers.h"
#include "hooks/recorder.h"
#include "hooks/shadows.h"

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

// The stream, whose context is not the shadow's, and its shadow.
class Pair {
 public:
  Pair(const StreamPlace& place, StreamHandle stream, Shadow& shadow)
      : place_(place), stream_(stream), shadow_(shadow) {}

  // Both with the shadow's context current.
  CUresult shadow_waits() {
    {
      const CurrentContext context(place_.context);
      if (CUresult result = shadow_.done(stream_); result != CUDA_SUCCESS) return result;
    }
    return shadow_.await_done();
  }
  CUresult stream_waits() {
    if (CUresult result = shadow_.ready(); result != CUDA_SUCCESS) return result;
    const CurrentContext context(place_.context);
    return shadow_.await_ready(stream_);
  }

 private:
  const StreamPlace& place_;
  const StreamHandle stream_;
  Shadow& shadow_;
};

CUresult submit_in(Shadow& shadow, const ActiveEngine& owner, const StreamPlace& place, StreamHandle stream, Host host,
                   const TouchList& touches, const OperationInfo& info, CallIn copy) {
  std::optional<Operation> operation;
  const Status begun = begin_patiently(
      info, [&](const OperationInfo& asked) { return owner.engine->begin(shadow.handle(), touches.all(), asked); },
      &operation);
  if (!begun.ok()) return static_cast<CUresult>(begun.code());
  Pair pair(place, stream, shadow);
  if (CUresult result = pair.shadow_waits(); result != CUDA_SUCCESS) return result;
  if (host == Host::kReadsAtOnce) real<Function::cuStreamSynchronize>(to_cu(shadow.handle()));
  Recorder* const recorder = Recorder::of(owner.engine);
  if (recorder != nullptr) recorder->submitting(shadow.handle(), info, touches.all());
  if (CUresult result = copy(to_cu(shadow.handle())); result != CUDA_SUCCESS) return result;
  if (recorder != nullptr) recorder->submitted(shadow.handle(), info, touches.all());
  const bool completed = host == Host::kWaits || host == Host::kWaitsFirst || pair.stream_waits() != CUDA_SUCCESS;
  // What the stream can not be made to wait for has passed.
  const CUresult result = completed ? real<Function::cuStreamSynchronize>(to_cu(shadow.handle())) : CUDA_SUCCESS;
  operation->commit(completed && result == CUDA_SUCCESS);
  return result;
}

}  // namespace

const ActiveEngine* out_of_reach(const EngineSet& engines, EngineBits owners, const StreamPlace& place) {
  const ActiveEngine* owner = nullptr;
  engines.for_each(owners, [&](const ActiveEngine& active) { owner = &active; });
  if (owner == nullptr || owners != engines.bit_of(owner) || owner == place.here) return nullptr;
  const std::optional<CUdevice> device = device_of(place);
  return !device.has_value() || may_use(*device, owner->device) ? nullptr : owner;
}

CUresult copy_in_shadow(const ActiveEngine& owner, const StreamPlace& place, StreamHandle stream, Host host,
                        const TouchList& touches, const OperationInfo& info, CallIn copy) {
  const Inside inside;
  // What the call would wait for anyway is waited for without the engine's lock, so that other threads go on.
  if (host != Host::kGoesOn && host != Host::kMayGoOn) real<Function::cuStreamSynchronize>(to_cu(stream));
  const CaptureTruce truce;
  const CurrentContext context(owner);
  Shadow* const shadow = Shadow::of(owner, stream, place.context);
  if (shadow == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = submit_in(*shadow, owner, place, stream, host, touches, info, copy);
  if (shadow->is_lasting()) return result;
  real<Function::cuStreamSynchronize>(to_cu(shadow->handle()));
  shadow->end(owner);
  return result;
}

}  // namespace thermocline
