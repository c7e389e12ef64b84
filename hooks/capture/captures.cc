// SPDX-License-Identifier: Apache-2.0
#include "hooks/capture/captures.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "driver/locks.h"
#include "hooks/capture/capture_state.h"
#include "hooks/interpose/functions.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/interpose/symbols.h"
#include "hooks/runtime/stream_context.h"

namespace thermocline {
namespace {

struct Capture {
  StreamHandle stream;
  std::thread::id thread;
  CUstreamCaptureMode mode;
  CUcontext context;  // of the stream; null: unknown
  CUgraph into;       // the program's graph; null: a new graph
};

struct Captures {
  Mutex mutex{"captures", lock_level::kLeaf};
  std::vector<Capture> under_way THERMOCLINE_GUARDED_BY(mutex);
  // Ids (the driver's) of captures that must end without a graph, although the driver does not know that.
  std::vector<cuuint64_t> refused THERMOCLINE_GUARDED_BY(mutex);
  std::atomic<bool> any_refused{false};
};

Captures& captures() { return process_lifetime<Captures>(); }

CUstreamCaptureMode mode_of_thread() {
  auto mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (real<Function::cuThreadExchangeStreamCaptureMode>(&mode) != CUDA_SUCCESS) return mode;
  CUstreamCaptureMode again = mode;
  real<Function::cuThreadExchangeStreamCaptureMode>(&again);
  return mode;
}

}  // namespace

namespace {

CUcontext context_of(StreamHandle stream) {
  CUcontext current = nullptr;
  if (real<Function::cuCtxGetCurrent>(&current) != CUDA_SUCCESS) return nullptr;
  return thermocline::context_of(stream, current);
}

// The handle of per-thread default streams is the same in every thread; only the owner thread can mean this one.
auto find_capture(Captures& all, StreamHandle stream) THERMOCLINE_REQUIRES(all.mutex) {
  return std::ranges::find_if(all.under_way, [stream](const Capture& one) {
    return one.stream == stream && (is_explicit(stream) || one.thread == std::this_thread::get_id());
  });
}

// Nothing if the stream is not capturing, or its capture has been invalidated.
std::optional<cuuint64_t> number_of_capture(StreamHandle stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t number = 0;
  const CUresult result = real<Function::cuStreamGetCaptureInfo_v2>(
      to_cu(stream), &status, &number, static_cast<CUgraph*>(nullptr), static_cast<const CUgraphNode**>(nullptr),
      static_cast<std::size_t*>(nullptr));
  if (result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return std::nullopt;
  return number;
}

bool take_refused(cuuint64_t number) {
  Captures& all = captures();
  const MutexLock lock(all.mutex);
  const bool was_refused = std::erase(all.refused, number) != 0;
  if (all.refused.empty()) all.any_refused.store(false, std::memory_order_relaxed);
  return was_refused;
}

bool records_into_another_graph(StreamHandle stream) {
  Captures& all = captures();
  const MutexLock lock(all.mutex);
  const auto found = find_capture(all, stream);
  return found != all.under_way.end() && found->into != nullptr;
}

}  // namespace

void note_capture(StreamHandle stream, CUstreamCaptureMode mode, CUgraph into) {
  const CUcontext context = context_of(stream);
  Captures& all = captures();
  const MutexLock lock(all.mutex);
  all.under_way.push_back({stream, std::this_thread::get_id(), mode, context, into});
}

bool forget_capture(StreamHandle stream) {
  Captures& all = captures();
  const MutexLock lock(all.mutex);
  const auto found = find_capture(all, stream);
  if (found == all.under_way.end()) return false;
  all.under_way.erase(found);
  return true;
}

int forget_captures_in(CUcontext context) {
  Captures& all = captures();
  const MutexLock lock(all.mutex);
  return static_cast<int>(
      std::erase_if(all.under_way, [context](const Capture& one) { return one.context == context; }));
}

void invalidate_capture(StreamHandle stream) noexcept {
  if (!is_recording(stream)) return;
  // Invalidates the capture by querying the stream: that is prohibited for a capturing stream and invalidates the
  // capture (Programming Guide, "Prohibited and Unhandled Operations"). The query does not wait.
  {
    const CaptureTruce others;
    real<Function::cuStreamQuery>(to_cu(stream));
  }
  const std::optional<cuuint64_t> number = number_of_capture(stream);
  if (!number.has_value()) return;
  Captures& all = captures();
  try {
    const MutexLock lock(all.mutex);
    all.refused.push_back(*number);
    all.any_refused.store(true, std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {
    THERMOCLINE_LOG_ONCE(LogLevel::kError,
                         "host memory is exhausted; a graph lacks what was refused while it was recorded");
  }
}

CUresult end_capture(StreamHandle stream, CUgraph* graph, Call end) {
  if (!captures().any_refused.load(std::memory_order_relaxed)) return end();
  const std::optional<cuuint64_t> number = number_of_capture(stream);
  const bool is_of_the_program = records_into_another_graph(stream);
  const CUresult result = end();
  if (!number.has_value() || is_recording(stream) || !take_refused(*number) || result != CUDA_SUCCESS) return result;
  if (graph != nullptr) {
    if (!is_of_the_program) real<Function::cuGraphDestroy>(*graph);
    *graph = nullptr;
  }
  return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

bool captures_forbid_allocation() {
  const CUstreamCaptureMode mode = mode_of_thread();
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  Captures& all = captures();
  const MutexLock lock(all.mutex);
  return std::ranges::any_of(all.under_way, [mode](const Capture& c) {
    if (c.thread == std::this_thread::get_id()) return c.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return mode == CU_STREAM_CAPTURE_MODE_GLOBAL && c.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  });
}

}  // namespace thermocline
