// SPDX-License-Identifier: Apache-2.0
// When a context ends, all memory in it ends. The engine's memory is released while the context still exists, that is,
// before the driver's own call. A primary context ends when it has been released as often as it was retained, so
// retains are counted. If it was active before the first of them, an unseen caller holds it: then the engine stays
// until the driver reports that the context is not active any more. Other contexts that the program creates on the same
// device do not affect the primary one.
#include <array>
#include <atomic>
#include <map>
#include <optional>

#include "driver/locks.h"
#include "hooks/capture/captures.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/runtime/caching_heaps.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/proxy_streams.h"
#include "hooks/submit/retired_streams.h"
#include "hooks/submit/submit.h"

namespace thermocline {
namespace {

constexpr std::size_t kMostDevices = 64;
// How often the program has been seen to retain a primary context.
struct Retained {
  std::atomic<int> count{0};
  std::atomic<CUcontext> newest{nullptr};
  // Another caller, which the hooks have not seen, had retained it before.
  std::atomic<bool> by_others{false};
};
std::array<Retained, kMostDevices> retained{};

Retained* retained_of(CUdevice device) {
  const auto index = static_cast<std::size_t>(device);
  return device >= 0 && index < kMostDevices ? &retained[index] : nullptr;
}

CUresult destroy(CUcontext context, Call call) {
  if (Inside::now()) return call();
  return guarded([&] {
    Runtime::get().end_context(context);
    const CUresult result = call();
    if (result != CUDA_SUCCESS) return result;
    captures().context_ended(context);
    forget_context(context);
    return result;
  });
}

// Nothing if the driver does not say.
std::optional<bool> is_active(CUdevice device) {
  unsigned int flags = 0;
  int active = 0;
  if (real<Function::cuDevicePrimaryCtxGetState>(device, &flags, &active) != CUDA_SUCCESS) return std::nullopt;
  return active != 0;
}

// Called before each seen retain. If several threads make the first retain, one may take another's for an unseen one.
void look_for_others(CUdevice device, Retained* seen) {
  if (seen->count.load() == 0) seen->by_others.store(is_active(device) == true);
}

// The primary context; null if nobody has retained it. Retains and releases it, which is the only way to get its
// handle; if the driver refuses, the handle from the last retain is returned.
CUcontext primary_of(CUdevice device) {
  const Inside inside;
  CUcontext context = nullptr;
  if (is_active(device) != true) return nullptr;
  if (real<Function::cuDevicePrimaryCtxRetain>(&context, device) == CUDA_SUCCESS) {
    real<Function::cuDevicePrimaryCtxRelease_v2>(device);
    return context;
  }
  const Retained* const seen = retained_of(device);
  return seen == nullptr ? nullptr : seen->newest.load();
}

CUresult reset(CUdevice device, Call call) {
  if (Inside::now()) return call();
  return guarded([&] {
    const CUcontext context = primary_of(device);
    if (context != nullptr) Runtime::get().end_context(context);
    const CUresult result = call();
    if (result == CUDA_SUCCESS && context != nullptr) captures().context_ended(context);
    return result;
  });
}

CUresult release(CUdevice device, Call call) {
  if (Inside::now()) return call();
  Retained* const seen = retained_of(device);
  return guarded([&] {
    const CUcontext context = primary_of(device);
    const bool is_held = seen != nullptr && seen->by_others.load();
    if (context != nullptr && !is_held && seen != nullptr && seen->count.load() == 1)
      Runtime::get().end_context(context);
    const CUresult result = call();
    if (result != CUDA_SUCCESS) return result;
    if (seen != nullptr && seen->count.load() > 0) seen->count.fetch_sub(1);
    // Retained by a caller that the hooks have not seen, or fewer times than was counted.
    if (context != nullptr && is_active(device) == false) {
      Runtime::get().abandon_context(context);
      captures().context_ended(context);
    }
    return result;
  });
}

// The device whose primary context each green context retains.
struct GreenContexts {
  Mutex mutex{"green contexts", lock_level::kLeaf};
  std::map<CUgreenCtx, CUdevice> devices THERMOCLINE_GUARDED_BY(mutex);
};
GreenContexts& green_contexts() { return process_lifetime<GreenContexts>(); }

std::optional<CUdevice> device_of(CUgreenCtx green) {
  GreenContexts& all = green_contexts();
  const MutexLock lock(all.mutex);
  const auto found = all.devices.find(green);
  return found == all.devices.end() ? std::nullopt : std::optional(found->second);
}

// Its streams end with it: afterwards they cannot be queried or destroyed.
CUresult destroy_green(CUgreenCtx green, Call call) {
  if (Inside::now()) return call();
  return guarded([&] {
    const std::optional<CUdevice> device = device_of(green);
    CUcontext context = nullptr;
    if (!device.has_value() || real<Function::cuCtxFromGreenCtx>(&context, green) != CUDA_SUCCESS) return call();
    retire_streams_of(context);
    const CUresult result = release(*device, call);
    if (result != CUDA_SUCCESS) return result;
    forget_context(green);
    captures().context_ended(context);
    {
      const Inside inside;
      end_proxy_streams_in(context, true);
    }
    const MutexLock lock(green_contexts().mutex);
    green_contexts().devices.erase(green);
    return result;
  });
}

struct Attachments {
  Mutex mutex{"attachments", lock_level::kLeaf};
  std::map<CUcontext, int> counts THERMOCLINE_GUARDED_BY(mutex);
};
Attachments& attachments() { return process_lifetime<Attachments>(); }

void attached(CUcontext context) {
  Attachments& all = attachments();
  const MutexLock lock(all.mutex);
  ++all.counts[context];
}

// If the context has attachments left, removes one and returns true.
bool was_attached(CUcontext context) {
  Attachments& all = attachments();
  const MutexLock lock(all.mutex);
  const auto found = all.counts.find(context);
  if (found == all.counts.end()) return false;
  if (--found->second == 0) all.counts.erase(found);
  return true;
}

}  // namespace
}  // namespace thermocline

extern "C" {

CUresult CUDAAPI cuCtxDestroy(CUcontext ctx) {
  using namespace thermocline;
  return destroy(ctx, [&] { return real<Function::cuCtxDestroy>(ctx); });
}

CUresult CUDAAPI cuCtxDestroy_v2(CUcontext ctx) {
  using namespace thermocline;
  return destroy(ctx, [&] { return real<Function::cuCtxDestroy_v2>(ctx); });
}

// A context ends when it has been detached as often as it was attached, and once more for its creation.
CUresult CUDAAPI cuCtxAttach(CUcontext* pctx, unsigned int flags) {
  using namespace thermocline;
  const CUresult result = real<Function::cuCtxAttach>(pctx, flags);
  if (result != CUDA_SUCCESS || pctx == nullptr || Inside::now()) return result;
  return guarded([&] {
    attached(*pctx);
    return result;
  });
}

CUresult CUDAAPI cuCtxDetach(CUcontext ctx) {
  using namespace thermocline;
  const auto call = [&] { return real<Function::cuCtxDetach>(ctx); };
  return was_attached(ctx) ? call() : destroy(ctx, call);
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  using namespace thermocline;
  Retained* const seen = retained_of(dev);
  if (seen == nullptr || Inside::now()) return real<Function::cuDevicePrimaryCtxRetain>(pctx, dev);
  look_for_others(dev, seen);
  const CUresult result = real<Function::cuDevicePrimaryCtxRetain>(pctx, dev);
  if (result != CUDA_SUCCESS) return result;
  seen->count.fetch_add(1);
  if (pctx != nullptr) {
    seen->newest.store(*pctx);
    note_context(*pctx);
  }
  return result;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice dev) {
  using namespace thermocline;
  return release(dev, [&] { return real<Function::cuDevicePrimaryCtxRelease>(dev); });
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  using namespace thermocline;
  return release(dev, [&] { return real<Function::cuDevicePrimaryCtxRelease_v2>(dev); });
}

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice dev) {
  using namespace thermocline;
  return reset(dev, [&] { return real<Function::cuDevicePrimaryCtxReset>(dev); });
}

CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  using namespace thermocline;
  return reset(dev, [&] { return real<Function::cuDevicePrimaryCtxReset_v2>(dev); });
}

CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx* phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags) {
  using namespace thermocline;
  Retained* const seen = retained_of(dev);
  if (seen == nullptr || Inside::now()) return real<Function::cuGreenCtxCreate>(phCtx, desc, dev, flags);
  look_for_others(dev, seen);
  const CUresult result = real<Function::cuGreenCtxCreate>(phCtx, desc, dev, flags);
  if (result != CUDA_SUCCESS || phCtx == nullptr) return result;
  seen->count.fetch_add(1);
  note_context(*phCtx);
  return guarded([&] {
    const MutexLock lock(green_contexts().mutex);
    green_contexts().devices.insert_or_assign(*phCtx, dev);
    return result;
  });
}

CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx hCtx) {
  using namespace thermocline;
  return destroy_green(hCtx, [hCtx] { return real<Function::cuGreenCtxDestroy>(hCtx); });
}

}  // extern "C"
