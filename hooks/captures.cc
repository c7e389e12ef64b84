// SPDX-License-Identifier: Apache-2.0
#include "hooks/captures.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <vector>

#include "hooks/functions.h"
#include "hooks/symbols.h"

namespace thermocline {
namespace {

struct Capture {
  StreamHandle stream;
  std::thread::id thread;
  CUstreamCaptureMode mode;
};

struct Captures {
  std::mutex mutex;
  std::vector<Capture> under_way;
};

// Programs capture until the very end.
Captures& captures() {
  static auto* const all = new Captures;
  return *all;
}

CUstreamCaptureMode mode_of_thread() {
  auto mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (real<Function::cuThreadExchangeStreamCaptureMode>(&mode) != CUDA_SUCCESS) return mode;
  CUstreamCaptureMode again = mode;
  real<Function::cuThreadExchangeStreamCaptureMode>(&again);
  return mode;
}

}  // namespace

void note_capture(StreamHandle stream, CUstreamCaptureMode mode) {
  Captures& all = captures();
  const std::lock_guard lock(all.mutex);
  all.under_way.push_back({stream, std::this_thread::get_id(), mode});
}

// A thread's own default stream has the same handle in each; but for relaxed captures, who began it ends it.
void forget_capture(StreamHandle stream) {
  Captures& all = captures();
  const std::lock_guard lock(all.mutex);
  const auto is_it = [stream](const Capture& c) { return c.stream == stream; };
  auto found = std::ranges::find_if(
      all.under_way, [&](const Capture& c) { return is_it(c) && c.thread == std::this_thread::get_id(); });
  if (found == all.under_way.end()) found = std::ranges::find_if(all.under_way, is_it);
  if (found != all.under_way.end()) all.under_way.erase(found);
}

bool captures_forbid_allocation() {
  const CUstreamCaptureMode mode = mode_of_thread();
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  Captures& all = captures();
  const std::lock_guard lock(all.mutex);
  return std::ranges::any_of(all.under_way, [mode](const Capture& c) {
    if (c.thread == std::this_thread::get_id()) return c.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return mode == CU_STREAM_CAPTURE_MODE_GLOBAL && c.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  });
}

}  // namespace thermocline
