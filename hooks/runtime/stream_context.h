// SPDX-License-Identifier: Apache-2.0
// The context and engine in which an operation is submitted. A stream belongs to a context, which need not be the
// current one; that context belongs to a device, which may have an engine or not.
#pragma once

#include "hooks/interpose/symbols.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {

inline CUstream to_cu(StreamHandle stream) { return reinterpret_cast<CUstream>(static_cast<std::uintptr_t>(stream)); }

// The engine's handle of the stream that a hook was given. 0 and CU_STREAM_LEGACY are the same stream; in the
// per-thread variants (per_thread) 0 is the thread's own default stream.
StreamHandle legacy(CUstream stream);
StreamHandle per_thread(CUstream stream);

// False for handles that mean a different stream in each context, or in each thread.
inline bool is_explicit(StreamHandle stream) noexcept { return static_cast<std::uintptr_t>(stream) > 2; }

struct StreamPlace {
  // The thread is running a host function of a stream, in which the driver refuses every call.
  bool refused = false;
  CUcontext current = nullptr;
  CUcontext context = nullptr;         // of the stream
  const ActiveEngine* here = nullptr;  // in that context; null: there is none, or the context is unknown
};
StreamPlace place_of(const EngineSet& engines, StreamHandle stream);

// The stream's context; `current` for a default stream, and if the driver does not say. Caches a few results.
CUcontext context_of(StreamHandle stream, CUcontext current);
// A stream, or all streams of a context, are about to end: their handles may be reused.
void forget_contexts_of_streams() noexcept;

// While an object of this class lives, the engine's context is current.
class CurrentContext {
 public:
  explicit CurrentContext(const ActiveEngine& active) : CurrentContext(active.context) {}
  explicit CurrentContext(CUcontext context);
  // If the place of the operation is already known.
  CurrentContext(const ActiveEngine& active, const StreamPlace& place);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  // As StreamPlace::refused: then the library must refuse too, because a thread that uses the engine may be waiting for
  // the host function.
  bool is_refused() const { return refused_; }

 private:
  bool pushed_ = false;
  bool refused_ = false;
};

}  // namespace thermocline
