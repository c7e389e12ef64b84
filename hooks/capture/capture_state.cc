// SPDX-License-Identifier: Apache-2.0
#include "hooks/capture/capture_state.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <thread>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/runtime/guarded.h"
#include "hooks/runtime/stream_context.h"

namespace thermocline {
namespace {

// What counts has begun, or may at any moment: not yet while the engines are told.
std::atomic<bool> may_have_begun{false};

// Guards changes of the number of captures, during which the engines are notified, against waits for whole contexts:
// such a wait must not begin while a stream captures.
struct CapturesChange {
  Mutex mutex{"change of captures", lock_level::kCaptureChange};
  std::condition_variable_any ended;  // signalled when a wait has ended
  int waits THERMOCLINE_GUARDED_BY(mutex) = 0;
  std::chrono::steady_clock::time_point newest THERMOCLINE_GUARDED_BY(mutex);  // when the newest of these waits began
};
CapturesChange& captures_change() { return process_lifetime<CapturesChange>(); }

// A capture invalidates a wait only if it exists at the moment when the driver call begins; the wait itself may last
// long. So before a capture begins, waits that have just begun get this much time to reach the driver. No more, because
// the thread that wants to capture may be what a stream waits for. A wait that reaches the driver later is refused by
// it and counts as not done.
constexpr std::chrono::milliseconds kTimeToReachTheDriver{20};

// So long an engine's contents may take to be made again, for streams that a host function holds up. Recorded copies of what
// is missing then are refused.
constexpr std::chrono::seconds kTimeToMakeAgain{1};

void tell_engines(bool any_records) {
  if (engines_now() == nullptr || Runtime::get().broken()) return;
  static_cast<void>(guarded([&] {
    Runtime::get().for_each([&](const ActiveEngine& active) {
      const CurrentContext context(active);
      const Inside inside;
      const auto end = std::chrono::steady_clock::now() + kTimeToMakeAgain;
      while (any_records && active.engine->make_all_again() == Status::not_ready() &&
             std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
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
  if (detail::captures.fetch_add(1) == 0) tell_engines(true);
  may_have_begun.store(true);
}

void capture_ended() {
  const MutexLock lock(captures_change().mutex);
  if (detail::captures.load() == 1) may_have_begun.store(false);
  if (detail::captures.fetch_sub(1) == 1) tell_engines(false);
}

namespace {

CUresult synchronize_unless_recorded(const ActiveEngine* active) {
  CapturesChange& change = captures_change();
  {
    const MutexLock lock(change.mutex);
    if (any_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    ++change.waits;
    change.newest = std::chrono::steady_clock::now();
  }
  // Other threads may submit work during the wait.
  const UseSet before = active == nullptr ? UseSet() : active->engine->submitted_all();
  const CUresult result = real<Function::cuCtxSynchronize>();
  if (result == CUDA_SUCCESS && active != nullptr) active->engine->synchronized(before);
  {
    const MutexLock lock(change.mutex);
    --change.waits;
  }
  change.ended.notify_all();
  return result;
}

}  // namespace

CUresult synchronize_unless_recorded(const ActiveEngine& active) { return synchronize_unless_recorded(&active); }
CUresult synchronize_unless_recorded() { return synchronize_unless_recorded(nullptr); }

bool any_capture_may_have_begun() { return may_have_begun.load(std::memory_order_acquire); }

constinit std::atomic<int> detail::captures{0};

bool detail::driver_says_it_records(StreamHandle stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return real<Function::cuStreamIsCapturing>(to_cu(stream), &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void CaptureTruce::begin() { active_ = real<Function::cuThreadExchangeStreamCaptureMode>(&mode_) == CUDA_SUCCESS; }

void CaptureTruce::end() { real<Function::cuThreadExchangeStreamCaptureMode>(&mode_); }

}  // namespace thermocline
