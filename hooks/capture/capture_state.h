// SPDX-License-Identifier: Apache-2.0
// Whether any stream is capturing a graph, and operations that are not allowed meanwhile.
#pragma once

#include <atomic>

#include "hooks/runtime/runtime.h"

namespace thermocline {

// capture_began() must be called before the driver's own call; if that fails, capture_ended() must follow.
void capture_began();
void capture_ended();
namespace detail {
extern constinit std::atomic<int> captures;
bool driver_says_it_records(StreamHandle stream);
}  // namespace detail
inline bool any_capture() { return detail::captures.load(std::memory_order_acquire) > 0; }
inline bool is_recording(StreamHandle stream) { return any_capture() && detail::driver_says_it_records(stream); }
// any_capture(), but false in the moment in which the engines are told that a capture is about to begin, and may still
// launch what they have to.
bool any_capture_may_have_begun();
// Waits for everything submitted in the engine's context, which must be current. Refuses while any stream captures,
// because the wait would invalidate that capture (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED). To be called under `Inside`,
// and not from within an engine.
CUresult synchronize_unless_recorded(const ActiveEngine& active);
// Waits so in the current context, which has no engine.
CUresult synchronize_unless_recorded();

// While an object of this class lives, driver calls of this thread do not disturb any capture
// (cuThreadExchangeStreamCaptureMode).
class CaptureTruce {
 public:
  CaptureTruce() {
    if (any_capture()) [[unlikely]]
      begin();
  }
  ~CaptureTruce() {
    if (active_) [[unlikely]]
      end();
  }
  CaptureTruce(const CaptureTruce&) = delete;
  CaptureTruce& operator=(const CaptureTruce&) = delete;

 private:
  void begin();
  void end();

  bool active_ = false;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace thermocline
