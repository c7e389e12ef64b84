// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/multi_device.h"

#include <algorithm>
#include <utility>

#include "driver/locks.h"
#include "hooks/submit/unwaited.h"

namespace thermocline {

AccessList part_of(const AccessList& accesses, const ActiveEngine& active) {
  AccessList part = accesses;
  part.filter([&](DeviceAddress address) { return active.owns(address); });
  return part;
}

CUresult MultiDeviceOperation::open(const EngineSet& engines, EngineBits bits, const AccessList& accesses,
                                    const OperationInfo& info, bool unknown) {
  // An engine that waits does so while the locks of the engines before it are held.
  const WaitsInPlace of_several;
  CUresult result = CUDA_SUCCESS;
  accesses_ = &accesses;
  engines.for_each(bits, [&](const ActiveEngine& active) {
    if (result == CUDA_SUCCESS) result = open_one(active, part_of(accesses, active), info, unknown);
  });
  return result;
}

CUresult MultiDeviceOperation::open_one(const ActiveEngine& active, const AccessList& accesses,
                                        const OperationInfo& info, bool unknown) {
  ProxyStream* proxy = nullptr;
  {
    const CurrentContext context(active);
    if (&active != place_.here) {
      proxy = ProxyStream::of(active, stream_, place_.context);
      if (proxy == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
      if (!proxy->is_lasting()) passing_.emplace_back(&active, proxy);
    }
    const StreamHandle stream = proxy == nullptr ? stream_ : proxy->handle();
    Operation operation =
        unknown ? active.engine->begin_unknown(stream) : active.engine->begin(stream, accesses.all(), info);
    if (!operation.status().ok()) return static_cast<CUresult>(operation.status().code());
    shares_.push_back({&active, proxy, std::move(operation)});
    if (proxy == nullptr) return CUDA_SUCCESS;
    if (CUresult result = proxy->ready(); result != CUDA_SUCCESS) return result;
  }
  return proxy->await_ready(stream_);
}

bool MultiDeviceOperation::is_behind_blocked() const {
  return std::any_of(shares_.begin(), shares_.end(),
                     [](const Share& share) { return share.operation.is_behind_blocked(); });
}

bool MultiDeviceOperation::follow(Share& share) {
  {
    const CurrentContext context(place_.context);
    if (share.proxy->done(stream_) != CUDA_SUCCESS) return false;
  }
  const CurrentContext context(*share.active);
  return share.proxy->await_done() == CUDA_SUCCESS;
}

CUresult MultiDeviceOperation::commit(bool completed) {
  const WaitsInPlace of_several;
  CUresult waited = CUDA_SUCCESS;
  boost::container::small_vector<const ActiveEngine*, 2> left_behind;
  for (Share& share : shares_) {
    // If the proxy can not be made to wait for the stream's work, the host waits for it.
    if (share.proxy != nullptr && !follow(share)) {
      const CUresult result = real<Function::cuStreamSynchronize>(to_cu(stream_));
      if (result != CUDA_SUCCESS) left_behind.push_back(share.active);
      if (result != CUDA_SUCCESS) waited = result;
    }
    const CurrentContext context(*share.active);
    share.operation.commit(completed);
  }
  shares_.clear();
  for (const ActiveEngine* active : left_behind)
    remember_unwaited(*active, part_of(*accesses_, *active), place_.context);
  return waited;
}

StreamHandle MultiDeviceOperation::stream_in(const Engine* engine) const {
  for (const Share& share : shares_) {
    if (share.active->engine == engine && share.proxy != nullptr) return share.proxy->handle();
  }
  return stream_;
}

MultiDeviceOperation::~MultiDeviceOperation() {
  shares_.clear();
  if (passing_.empty()) return;
  const WaitsInPlace of_several;
  try {
    real<Function::cuStreamSynchronize>(to_cu(stream_));
    for (const auto& [active, proxy] : passing_) {
      const CurrentContext context(*active);
      // A stream in which something may be running stays, with what its engine knows of it.
      if (real<Function::cuStreamSynchronize>(to_cu(proxy->handle())) == CUDA_SUCCESS) proxy->end(*active);
    }
  } catch (const BrokenInvariant&) {
    // Caught because nothing may be thrown from here: the operation has been submitted.
    return;
  }
}

}  // namespace thermocline
