// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/stream_context.h"

#include <array>
#include <atomic>
#include <cstdint>

namespace thermocline {
namespace {

// Counts the ends of streams: entries remembered before are no longer valid.
std::atomic<std::uint64_t> ends{1};

struct Remembered {
  std::uintptr_t stream = 0;
  std::uint64_t when = 0;
  CUcontext context = nullptr;
};
constexpr std::size_t kRemembered = 8;
thread_local constinit std::array<Remembered, kRemembered> remembered{};

// Host functions run in threads of the driver, which have no context. A driver need not report an error for that: it
// matters that it makes no context current there.
bool refuses_contexts(const EngineSet& engines) {
  if (engines.empty()) return false;
  CUcontext popped = nullptr;
  const CUresult result = real<Function::cuCtxPushCurrent_v2>((*engines.begin())->context);
  if (result == CUDA_SUCCESS) real<Function::cuCtxPopCurrent_v2>(&popped);
  return result == CUDA_ERROR_NOT_PERMITTED;
}

}  // namespace

void forget_contexts_of_streams() noexcept { ends.fetch_add(1, std::memory_order_release); }

CUcontext context_of(StreamHandle stream, CUcontext current) {
  if (!is_explicit(stream)) return current;
  const auto handle = static_cast<std::uintptr_t>(stream);
  const std::uint64_t now = ends.load(std::memory_order_acquire);
  // Handles are addresses of objects, so their lowest bits are always the same.
  Remembered& one = remembered[(handle >> 4 ^ handle >> 8) % kRemembered];
  if (one.stream == handle && one.when == now) return one.context;
  CUcontext found = nullptr;
  if (real<Function::cuStreamGetCtx>(to_cu(stream), &found) != CUDA_SUCCESS || found == nullptr) return current;
  one = {handle, now, found};
  return found;
}

StreamPlace place_of(const EngineSet& engines, StreamHandle stream) {
  StreamPlace place;
  const CUresult result = real<Function::cuCtxGetCurrent>(&place.current);
  const bool has_none = result == CUDA_SUCCESS && place.current == nullptr;
  place.refused = result == CUDA_ERROR_NOT_PERMITTED || (has_none && refuses_contexts(engines));
  if (result != CUDA_SUCCESS || place.refused) return place;
  place.context = context_of(stream, place.current);
  if (place.context != nullptr) place.here = engines.in(place.context);
  return place;
}

CurrentContext::CurrentContext(CUcontext context) {
  CUcontext current = nullptr;
  const CUresult result = real<Function::cuCtxGetCurrent>(&current);
  refused_ = result == CUDA_ERROR_NOT_PERMITTED;
  if (refused_ || (result == CUDA_SUCCESS && current == context)) return;
  const CUresult pushed = real<Function::cuCtxPushCurrent_v2>(context);
  pushed_ = pushed == CUDA_SUCCESS;
  refused_ = pushed == CUDA_ERROR_NOT_PERMITTED;
}

CurrentContext::CurrentContext(const ActiveEngine& active, const StreamPlace& place) {
  if (place.current == active.context) return;
  pushed_ = real<Function::cuCtxPushCurrent_v2>(active.context) == CUDA_SUCCESS;
}

CurrentContext::~CurrentContext() {
  CUcontext popped = nullptr;
  if (pushed_) real<Function::cuCtxPopCurrent_v2>(&popped);
}

StreamHandle legacy(CUstream stream) {
  return stream == CU_STREAM_LEGACY ? StreamHandle{} : StreamHandle{reinterpret_cast<std::uintptr_t>(stream)};
}

StreamHandle per_thread(CUstream stream) { return legacy(stream == nullptr ? CU_STREAM_PER_THREAD : stream); }

}  // namespace thermocline
