// SPDX-License-Identifier: Apache-2.0
// submit() for a kernel that copies nothing. Nearly all launches concern one engine, in the current context, and nobody
// watches them: for these the driver's call is inlined between the two halves of the operation.
#pragma once

#include <utility>

#include "driver/undisturbed.h"
#include "hooks/capture/capture_state.h"
#include "hooks/diagnostics/misuse.h"
#include "hooks/diagnostics/recorder.h"
#include "hooks/runtime/guarded.h"
#include "hooks/runtime/refusals.h"
#include "hooks/runtime/stream_context.h"
#include "hooks/submit/stream_queues.h"
#include "hooks/submit/stream_turns.h"
#include "hooks/submit/submit.h"

namespace thermocline {

namespace detail {

// The only engine, if the stream belongs to its context, which is current, and only that engine has to be told of a
// launch. Null: others have to be asked or told; submit() does that.
[[gnu::always_inline]] inline const ActiveEngine* only_engine(const EngineSet& engines, StreamHandle stream,
                                                              const AccessList& accesses, const OperationInfo& info) {
  if (engines.size() != 1 || accesses.empty() || info.operator_class == OperatorClass::kTables) return nullptr;
  const bool is_alone = !any_stream_may_block() && !any_capture() && !watches_misuse() && Recorder::get() == nullptr &&
                        !Runtime::get().broken();
  const ActiveEngine& only = engines[0];
  if (!is_alone || only.engine->audits()) return nullptr;
  CUcontext current = nullptr;
  if (real<Function::cuCtxGetCurrent>(&current) != CUDA_SUCCESS || current != only.context) return nullptr;
  return !is_explicit(stream) || context_of(stream, current) == current ? &only : nullptr;
}

// Requests again what was not granted at once.
CUresult launch_again(const ActiveEngine& active, StreamHandle stream, const AccessList& accesses,
                      const OperationInfo& info, Call call, Operation first);

template <class Submit>
[[gnu::always_inline]] inline CUresult launch_here(const ActiveEngine& active, StreamHandle stream,
                                                   const AccessList& accesses, const OperationInfo& info,
                                                   Inside::Depth depth, const Submit& call) {
  const Inside inside(depth);
  const CaptureTruce truce;
  Operation operation = active.engine->begin(stream, accesses.all(), info);
  if (!operation.status().ok() || any_turn()) [[unlikely]]
    return launch_again(active, stream, accesses, info, call, std::move(operation));
  const CUresult result = call();
  if (result == CUDA_SUCCESS) operation.commit();
  return result;
}

}  // namespace detail

// `engines`: the current ones; all accesses are in their hull. `depth`: of the calling thread.
template <class Submit>
[[gnu::always_inline]] inline CUresult submit_launch(const EngineSet& engines, StreamHandle stream,
                                                     AccessList& accesses, const OperationInfo& info,
                                                     Inside::Depth depth, const Submit& call) {
  const ActiveEngine* const only = detail::only_engine(engines, stream, accesses, info);
  if (only == nullptr) [[unlikely]]
    return submit(stream, Host::kGoesOn, std::move(accesses), info, call);
  const RoomInQueue room(stream);
  CUresult result = CUDA_SUCCESS;
  {
    // As guarded() does, inlined.
    const Undisturbed undisturbed;
    try {
      result = detail::launch_here(*only, stream, accesses, info, depth, call);
    } catch (...) {
      result = error_of_exception();
    }
  }
  give_out_report();
  return result;
}

}  // namespace thermocline
