// SPDX-License-Identifier: Apache-2.0
// The captures of the process: one object each, from before the driver's function that begins it until after the one
// that ends it. All that the hooks know of a capture is here; what its graph accesses is in graphs/.
//
// Invariants:
// - any_capture() is true from before the driver begins a capture until the driver has ended it, however it ends: by
//   its end, with its stream, or with its context. Its number is that of the captures that begin or have begun, and of
//   the plug-in's pools that are open (they stand for captures that no hook sees).
// - An engine is told (Engine::recording) that there is a capture before the first one begins, and that there is none
//   after the last one has ended.
// - No wait of ours for a whole context is under way when a capture begins, and none begins before it has ended: the
//   driver would invalidate the capture.
// - A capture of which the library refused an operation returns no graph: the graph would lack that operation.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <optional>
#include <thread>

#include "driver/locks.h"
#include "hooks/capture/capture_state.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/runtime/guarded.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {

struct Capture {
  StreamHandle stream{};           // in which it began, and in which it ends
  std::thread::id thread{};        // that began it
  CUstreamCaptureMode mode{};      // what threads may not do meanwhile, by cuThreadExchangeStreamCaptureMode
  CUgraph into = nullptr;          // the program's graph that is captured into; null: a new one
  CUcontext context = nullptr;     // of the stream; null: unknown
  std::optional<cuuint64_t> id{};  // the driver's, equal in all streams that have joined; nothing: it did not say
  bool is_refused = false;         // the library refused an operation of it, and the driver does not know that
  bool is_seen = true;             // its beginning was; else only `id` and `is_refused` are known
};

class Captures {
 public:
  // Begins one with the driver's function, whose result it returns.
  CUresult begin(StreamHandle stream, CUstreamCaptureMode mode, CUgraph into, Call begins);
  // Ends the stream's with the driver's function, which stores the graph there; null: the graph is not wanted. A capture
  // that was invalidated also ends, with the driver's error. None ends if it began in another stream, or in another
  // thread under a mode that forbids that. One that was refused gets no graph, and the error for invalidated captures.
  CUresult end(StreamHandle stream, CUgraph* graph, Call ends);
  // The stream was destroyed, or the context with all its streams: no later call can end their captures.
  void stream_destroyed(StreamHandle stream);
  void context_ended(CUcontext context);
  // The plug-in's pools, while they are open.
  void pool_opened() { count_one(); }
  void pool_closed() { discount_one(); }

  // The library has refused an operation that was to be captured: invalidates the stream's capture, as CUDA does when an
  // operation fails (Programming Guide, "Stream Capture Invalidation"). Nothing if the stream is not capturing. Must not
  // be called under an engine's lock.
  void refuse(StreamHandle stream) noexcept;

  // any_capture(), but false in the moment in which the engines are told that a capture is about to begin, and may still
  // launch what they have to.
  bool any_may_have_begun() const { return may_have_begun_.load(std::memory_order_acquire); }
  // Whether captures forbid the calling thread to allocate memory outside of stream order. This may include a capture
  // whose end was not seen, so the driver has the final decision.
  bool forbid_allocation();
  // Waits for everything submitted in the engine's context, which must be current. Refuses while any stream captures
  // (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED). To be called under `Inside`, and not from within an engine.
  CUresult synchronize(const ActiveEngine& active) { return synchronize(&active); }
  // Waits so in the current context, which has no engine.
  CUresult synchronize_current() { return synchronize(nullptr); }

 private:
  void count_one();
  void discount_one();
  CUresult synchronize(const ActiveEngine* active);
  // Removes what is known of the stream's capture, and of the capture with this id. Not seen: of the stream's nothing is.
  Capture take(StreamHandle stream, std::optional<cuuint64_t> id);
  void look_for_refused() THERMOCLINE_REQUIRES(mutex_);

  // Held while the number changes and engines are told, and when a wait for a context begins.
  Mutex change_{"change of captures", lock_level::kCaptureChange};
  std::condition_variable_any wait_ended_;
  int waits_ THERMOCLINE_GUARDED_BY(change_) = 0;
  std::chrono::steady_clock::time_point newest_wait_ THERMOCLINE_GUARDED_BY(change_);  // when it began
  std::atomic<bool> may_have_begun_{false};

  Mutex mutex_{"captures", lock_level::kLeaf};
  // All captures that the hooks saw begin. Also refused ones whose beginning they did not see; these are not counted.
  std::list<Capture> all_ THERMOCLINE_GUARDED_BY(mutex_);
  std::atomic<bool> any_refused_{false};
};

Captures& captures();

}  // namespace thermocline
