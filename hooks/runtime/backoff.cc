// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/backoff.h"

#include <algorithm>
#include <thread>

#include "hooks/interpose/log.h"
#include "hooks/runtime/device_lease.h"
#include "hooks/runtime/mapping_waits.h"

namespace thermocline {
namespace {

// A simulated device lets work happen by itself when nobody has called it for some milliseconds.
constexpr std::chrono::microseconds kLongestPause{16000};
// While others have the time slice of a shared device, at most this many times as long.
constexpr int kTurns = 6;

}  // namespace

bool Backoff::wait() {
  const auto now = std::chrono::steady_clock::now();
  if (end_ == std::chrono::steady_clock::time_point{}) {
    end_ = now + longest_;
    last_ = now + kTurns * longest_;
  } else if (any_waits_for_turn()) {
    // Memory may come with its turn, and other threads' operations, which release streams, wait for that.
    end_ = std::min(now + longest_, last_);
  }
  if (now >= end_) {
    THERMOCLINE_LOG_ONCE(
        LogLevel::kError,
        "out of memory: %s wait for values or host functions, and none of these has come for %d seconds",
        mapping_was_found_to_wait() ? "the driver can not map or unmap while streams"
                                    : "what could leave the device is used by streams that",
        static_cast<int>(longest_.count()));
    return false;
  }
  std::this_thread::sleep_for(pause_);
  pause_ = std::min(2 * pause_, kLongestPause);
  return true;
}

}  // namespace thermocline
