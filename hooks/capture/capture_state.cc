// SPDX-License-Identifier: Apache-2.0
#include "hooks/capture/capture_state.h"

#include <atomic>
#include <chrono>
#include <condition_variable>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/runtime/guarded.h"
#include "hooks/runtime/stream_context.h"

namespace thermocline {
namespace {

std::atomic<int> captures{0};

// The count of captures, while it changes and the engines are told, and waits for whole contexts, which must not begin
// where a stream records.
struct CapturesChange {
  Mutex mutex{"change of captures", lock_level::kCaptureChange};
  std::condition_variable_any ended;  // a wait
  int waits THERMOCLINE_GUARDED_BY(mutex) = 0;
  std::chrono::steady_clock::time_point newest THERMOCLINE_GUARDED_BY(mutex);  // when the newest of these began
};
CapturesChange& captures_change() { return process_lifetime<CapturesChange>(); }

// A wait is held against captures when the driver is asked for it, and lasts as long as any stream does. So whoever
// begins to record gives those that have just begun the time to reach the driver, and no more: it may be what a stream
// waits for. One that comes later all the same is refused by the driver, and counts as not done.
constexpr std::chrono::milliseconds kTimeToReachTheDriver{20};

void tell_engines(bool any_records) {
  if (engines_now() == nullptr || Runtime::get().broken()) return;
  static_cast<void>(guarded([&] {
    Runtime::get().for_each([&](const ActiveEngine& active) {
      const CurrentContext context(active);
      const Inside inside;
      active.engine->recording(any_records);
    });
    return CUDA_SUCCESS;
  }));
}

}  // namespace

void capture_began() {
  CapturesChange& change = captures_change();
  MutexLock lock(change.mutex);
  while (change.waits > 0) {
    if (change.ended.wait_until(lock, change.newest + kTimeToReachTheDriver) == std::cv_status::timeout) break;
  }
  if (captures.fetch_add(1) == 0) tell_engines(true);
}

void capture_ended() {
  const MutexLock lock(captures_change().mutex);
  if (captures.fetch_sub(1) == 1) tell_engines(false);
}

CUresult synchronize_unless_recorded(const ActiveEngine& active) {
  CapturesChange& change = captures_change();
  {
    const MutexLock lock(change.mutex);
    if (any_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    ++change.waits;
    change.newest = std::chrono::steady_clock::now();
  }
  // Other threads go on submitting.
  const UseSet before = active.engine->submitted_all();
  const CUresult result = real<Function::cuCtxSynchronize>();
  if (result == CUDA_SUCCESS) active.engine->synchronized(before);
  {
    const MutexLock lock(change.mutex);
    --change.waits;
  }
  change.ended.notify_all();
  return result;
}

bool any_capture() { return captures.load(std::memory_order_acquire) > 0; }

bool is_recording(StreamHandle stream) {
  if (!any_capture()) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return real<Function::cuStreamIsCapturing>(to_cu(stream), &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CaptureTruce::CaptureTruce() {
  if (captures.load(std::memory_order_acquire) <= 0) return;
  active_ = real<Function::cuThreadExchangeStreamCaptureMode>(&mode_) == CUDA_SUCCESS;
}

CaptureTruce::~CaptureTruce() {
  if (active_) real<Function::cuThreadExchangeStreamCaptureMode>(&mode_);
}

}  // namespace thermocline
