// SPDX-License-Identifier: Apache-2.0
// Where an operation is submitted: a stream belongs to a context, which need not be the current one, and that to a
// device with an engine, or to none.
#pragma once

#include "hooks/interpose/symbols.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {

inline CUstream to_cu(StreamHandle stream) { return reinterpret_cast<CUstream>(static_cast<std::uintptr_t>(stream)); }

// The stream that a hook was given, as the engine knows it. 0 and CU_STREAM_LEGACY are one stream; in the per-thread
// variants 0 means the thread's own.
StreamHandle legacy(CUstream stream);
StreamHandle per_thread(CUstream stream);

// Not one of the handles that mean another stream in each context, or each thread.
inline bool is_explicit(StreamHandle stream) noexcept { return static_cast<std::uintptr_t>(stream) > 2; }

struct StreamPlace {
  // The thread runs a function of the host for a stream, where the driver refuses every call.
  bool refused = false;
  CUcontext current = nullptr;
  CUcontext context = nullptr;         // of the stream
  const ActiveEngine* here = nullptr;  // in that context; null: there is none, or nothing can be known
};
StreamPlace place_of(const EngineSet& engines, StreamHandle stream);

// The stream's context; `current` for a default stream, and where the driver does not say. Remembers a few.
CUcontext context_of(StreamHandle stream, CUcontext current);
// Some stream, or all streams of a context, are about to end: their handles may come again.
void forget_contexts_of_streams() noexcept;

// While one lives, the engine's context is current.
class CurrentContext {
 public:
  explicit CurrentContext(const ActiveEngine& active) : CurrentContext(active.context) {}
  explicit CurrentContext(CUcontext context);
  // Where it is known already which is.
  CurrentContext(const ActiveEngine& active, const StreamPlace& place);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  // StreamPlace::refused: so must we refuse, since who works with the engine may be waiting for that function.
  bool is_refused() const { return refused_; }

 private:
  bool pushed_ = false;
  bool refused_ = false;
};

}  // namespace thermocline
