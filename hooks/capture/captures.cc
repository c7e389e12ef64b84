// SPDX-License-Identifier: Apache-2.0
// Compiled alone: its instructions are counted (scripts/count_instructions.sh), so inlining must be as in a package.
#include "hooks/capture/captures.h"

#include <algorithm>
#include <new>
#include <utility>

#include "hooks/interpose/functions.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/interpose/symbols.h"
#include "hooks/runtime/stream_context.h"

namespace thermocline {
namespace {

// A capture invalidates a wait only if it exists at the moment when the driver call begins; the wait itself may last
// long. So before a capture begins, waits that have just begun get this much time to reach the driver. No more, because
// the thread that wants to capture may be what a stream waits for. A wait that reaches the driver later is refused by
// it and counts as not done.
constexpr std::chrono::milliseconds kTimeToReachTheDriver{20};

// So long an engine's contents may take to be made again, for streams that a host function holds up. Recorded copies of
// what is missing then are refused.
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

CUstreamCaptureMode mode_of_thread() {
  auto mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (real<Function::cuThreadExchangeStreamCaptureMode>(&mode) != CUDA_SUCCESS) return mode;
  CUstreamCaptureMode again = mode;
  real<Function::cuThreadExchangeStreamCaptureMode>(&again);
  return mode;
}

CUcontext context_of(StreamHandle stream) {
  CUcontext current = nullptr;
  if (real<Function::cuCtxGetCurrent>(&current) != CUDA_SUCCESS) return nullptr;
  return thermocline::context_of(stream, current);
}

// Nothing if the stream is not capturing, or its capture has been invalidated.
std::optional<cuuint64_t> id_of_capture(StreamHandle stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  const CUresult result = real<Function::cuStreamGetCaptureInfo_v2>(
      to_cu(stream), &status, &id, static_cast<CUgraph*>(nullptr), static_cast<const CUgraphNode**>(nullptr),
      static_cast<std::size_t*>(nullptr));
  if (result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return std::nullopt;
  return id;
}

// The handle of per-thread default streams is the same in every thread; only the owner thread can mean this one.
bool is_of(const Capture& one, StreamHandle stream) {
  return one.is_seen && one.stream == stream && (is_explicit(stream) || one.thread == std::this_thread::get_id());
}

}  // namespace

constinit std::atomic<int> detail::capture_count{0};

void Captures::count_one() {
  MutexLock lock(change_);
  while (waits_ > 0) {
    if (wait_ended_.wait_until(lock, newest_wait_ + kTimeToReachTheDriver) == std::cv_status::timeout) break;
  }
  if (detail::capture_count.fetch_add(1) == 0) tell_engines(true);
  may_have_begun_.store(true);
}

void Captures::discount_one() {
  const MutexLock lock(change_);
  if (detail::capture_count.load() == 1) may_have_begun_.store(false);
  if (detail::capture_count.fetch_sub(1) == 1) tell_engines(false);
}

CUresult Captures::synchronize(const ActiveEngine* active) {
  {
    const MutexLock lock(change_);
    if (any_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    ++waits_;
    newest_wait_ = std::chrono::steady_clock::now();
  }
  // Other threads may submit work during the wait.
  const UseSet before = active == nullptr ? UseSet() : active->engine->submitted_all();
  const CUresult result = real<Function::cuCtxSynchronize>();
  if (result == CUDA_SUCCESS && active != nullptr) active->engine->synchronized(before);
  {
    const MutexLock lock(change_);
    --waits_;
  }
  wait_ended_.notify_all();
  return result;
}

CUresult Captures::begin(StreamHandle stream, CUstreamCaptureMode mode, CUgraph into, Call begins) {
  // Memory for it comes first: a capture that has begun is known in any case.
  std::list<Capture> made;
  const CUresult has_memory = with_host_memory([&] {
    made.push_back({.stream = stream, .thread = std::this_thread::get_id(), .mode = mode, .into = into});
    return CUDA_SUCCESS;
  });
  if (has_memory != CUDA_SUCCESS) return has_memory;
  count_one();
  const CUresult result = begins();
  if (result != CUDA_SUCCESS) {
    discount_one();
    return result;
  }
  made.front().context = context_of(stream);
  made.front().id = id_of_capture(stream);
  const MutexLock lock(mutex_);
  all_.splice(all_.end(), made);
  return result;
}

CUresult Captures::end(StreamHandle stream, CUgraph* graph, Call ends) {
  if (!is_recording(stream)) return ends();
  std::optional<cuuint64_t> id;
  if (any_refused_.load(std::memory_order_relaxed)) id = id_of_capture(stream);
  CUresult result = ends();
  if (is_recording(stream)) return result;
  const Capture ended = take(stream, id);
  if (ended.is_refused && result == CUDA_SUCCESS) {
    if (graph != nullptr) {
      if (ended.into == nullptr) real<Function::cuGraphDestroy>(*graph);
      *graph = nullptr;
    }
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  if (ended.is_seen) discount_one();
  return result;
}

void Captures::stream_destroyed(StreamHandle stream) {
  if (any_capture() && take(stream, std::nullopt).is_seen) discount_one();
}

void Captures::context_ended(CUcontext context) {
  if (!any_capture()) return;
  std::size_t left = 0;
  {
    const MutexLock lock(mutex_);
    left = std::erase_if(all_, [context](const Capture& one) { return one.is_seen && one.context == context; });
    look_for_refused();
  }
  for (; left > 0; --left) discount_one();
}

Capture Captures::take(StreamHandle stream, std::optional<cuuint64_t> id) {
  Capture taken{.is_seen = false};
  const MutexLock lock(mutex_);
  if (const auto found = std::ranges::find_if(all_, [&](const Capture& one) { return is_of(one, stream); });
      found != all_.end()) {
    taken = *found;
    all_.erase(found);
  }
  if (id.has_value()) {
    const auto unseen = [&](const Capture& one) { return !one.is_seen && one.id == id; };
    if (std::erase_if(all_, unseen) != 0) taken.is_refused = true;
  }
  look_for_refused();
  return taken;
}

void Captures::look_for_refused() {
  any_refused_.store(std::ranges::any_of(all_, &Capture::is_refused), std::memory_order_relaxed);
}

void Captures::refuse(StreamHandle stream) noexcept {
  if (!is_recording(stream)) return;
  // Invalidates the capture by querying the stream: that is prohibited for a capturing stream and invalidates the
  // capture (Programming Guide, "Prohibited and Unhandled Operations"). The query does not wait.
  {
    const CaptureTruce others;
    real<Function::cuStreamQuery>(to_cu(stream));
  }
  const std::optional<cuuint64_t> id = id_of_capture(stream);
  if (!id.has_value()) return;
  try {
    const MutexLock lock(mutex_);
    const auto found = std::ranges::find(all_, id, &Capture::id);
    if (found != all_.end()) {
      found->is_refused = true;
    } else {
      all_.push_back({.id = id, .is_refused = true, .is_seen = false});
    }
    any_refused_.store(true, std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {
    THERMOCLINE_LOG_ONCE(LogLevel::kError,
                         "host memory is exhausted; a graph lacks what was refused while it was recorded");
  }
}

bool Captures::forbid_allocation() {
  const CUstreamCaptureMode mode = mode_of_thread();
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  const MutexLock lock(mutex_);
  return std::ranges::any_of(all_, [mode](const Capture& one) {
    if (!one.is_seen) return false;
    if (one.thread == std::this_thread::get_id()) return one.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return mode == CU_STREAM_CAPTURE_MODE_GLOBAL && one.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  });
}

Captures& captures() { return process_lifetime<Captures>(); }

}  // namespace thermocline
