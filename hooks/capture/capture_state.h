// SPDX-License-Identifier: Apache-2.0
// Tells every hook, without a lock, whether a stream captures a graph. captures.h owns the captures.
#pragma once

#include <atomic>

#include "driver/driver.h"
#include "hooks/interpose/cuda_api.h"

namespace thermocline {

namespace detail {
extern constinit std::atomic<int> capture_count;  // Captures alone writes it
bool driver_says_it_records(StreamHandle stream);
}  // namespace detail
inline bool any_capture() { return detail::capture_count.load(std::memory_order_acquire) > 0; }
inline bool is_recording(StreamHandle stream) { return any_capture() && detail::driver_says_it_records(stream); }

// While an object of this class lives, driver calls of this thread do not disturb any capture
// (cuThreadExchangeStreamCaptureMode).
class CaptureTruce {
 public:
  CaptureTruce() {
    if (any_capture()) [[unlikely]]
      begin();
  }
  // Also for captures that begin meanwhile: what takes long is worth its two driver calls.
  enum class Always { kYes };
  explicit CaptureTruce(Always) { begin(); }
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
