// SPDX-License-Identifier: Apache-2.0
// Calls from which the engine learns the progress of streams or the order between them; and stream capture. The calls
// themselves are passed on unchanged.
#include <optional>

#include "hooks/capture/capture_state.h"
#include "hooks/capture/captures.h"
#include "hooks/graphs/graph_memory.h"
#include "hooks/operands/values.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/late_frees.h"
#include "hooks/submit/macros.h"
#include "hooks/submit/retired_streams.h"
#include "hooks/submit/stream_queues.h"

namespace thermocline {
namespace {

// The engine of the stream's context. Also null if the driver refuses every call (StreamPlace::refused).
const ActiveEngine* engine_to_tell(StreamHandle stream) {
  const EngineSet* const engines = engines_now();
  return engines == nullptr || Runtime::get().broken() ? nullptr : place_of(*engines, stream).here;
}

// Other threads submit during the wait, so only what was submitted before the wait counts as completed after it.
CUresult wait_for(StreamHandle stream, Call call) {
  const ActiveEngine* active = engine_to_tell(stream);
  if (active == nullptr) return call();
  return guarded([&] {
    const UseSet before = active->engine->submitted(stream);
    const CUresult result = call();
    if (result == CUDA_SUCCESS && !before.empty()) {
      const Inside inside;
      active->engine->synchronized(before);
    }
    if (result == CUDA_SUCCESS) count_late_graph_memory();
    return result;
  });
}

CUresult wait_for_all(CUcontext context, Call call) {
  const EngineSet* const engines = engines_now();
  if (engines == nullptr || Runtime::get().broken() || place_of(*engines, {}).refused) return call();
  const ActiveEngine* active = engines->in(context);
  if (active == nullptr) return call();
  return guarded([&] {
    const UseSet before = active->engine->submitted_all();
    LateFrees frees(*active);
    const CUresult result = call();
    if (result != CUDA_SUCCESS) return result;
    if (!before.empty() || !frees.none()) {
      const Inside inside;
      active->engine->synchronized(before);
      frees.waited();
    }
    count_late_graph_memory();
    return result;
  });
}

// Work of the stream that has not completed by now may be ordered after a wait for a value.
CUresult come_behind(StreamHandle stream, CUevent event, Call call) {
  const RoomInQueue room(stream);
  const ActiveEngine* active = any_waits_for_values() ? engine_to_tell(stream) : nullptr;
  if (active == nullptr) return call();
  return guarded([&] {
    CUresult result = CUDA_SUCCESS;
    std::optional<Inside> inside;
    std::optional<CaptureTruce> truce;
    std::optional<CurrentContext> context;
    active->engine->come_behind(stream, [&] {
      result = call();
      // The event must not be queried either: it belongs to the capture.
      if (result != CUDA_SUCCESS || is_recording(stream)) return false;
      inside.emplace();
      truce.emplace();
      context.emplace(*active);
      return real<Function::cuEventQuery>(event) != CUDA_SUCCESS;
    });
    return result;
  });
}

CUcontext current_context() {
  CUcontext current = nullptr;
  return real<Function::cuCtxGetCurrent>(&current) == CUDA_SUCCESS ? current : nullptr;
}

CUresult destroy_and_end_capture(StreamHandle stream, Call call) {
  const CUresult result = call();
  if (result == CUDA_SUCCESS) captures().stream_destroyed(stream);
  return result;
}

CUresult destroy(CUstream stream, Call call) {
  const StreamHandle handle = legacy(stream);
  if (Inside::now() || !is_explicit(handle)) return call();
  end_queue_of(handle);
  if (engines_now() == nullptr || Runtime::get().broken()) return destroy_and_end_capture(handle, call);
  return guarded([&] {
    {
      const HeldEngines engines;
      const StreamPlace place = engines.none() ? StreamPlace() : place_of(*engines, handle);
      if (engines.none() || place.refused) return destroy_and_end_capture(handle, call);
      retire_stream(*engines, handle, place.here);
    }
    forget_contexts_of_streams();
    return destroy_and_end_capture(handle, call);
  });
}

// The stream may be blocked behind the call, and this thread may be the one that lets it go on: then an engine must not
// wait for what comes behind it.
CUresult call_that_blocks(StreamHandle stream, Call call) {
  note_streams_may_block();
  return submit(stream, Host::kGoesOn, {}, {.may_block = true}, call);
}

}  // namespace
}  // namespace thermocline

THERMOCLINE_HOOK_PAIR(cuStreamSynchronize, _ptsz, (CUstream hStream),
                      { return wait_for(stream_of(hStream), [&] { return real<kFunction>(hStream); }); })
THERMOCLINE_HOOK_PAIR(cuStreamQuery, _ptsz, (CUstream hStream),
                      { return wait_for(stream_of(hStream), [&] { return real<kFunction>(hStream); }); })

THERMOCLINE_HOOK_PAIR(cuStreamWaitEvent, _ptsz, (CUstream hStream, CUevent hEvent, unsigned int Flags), {
  return come_behind(stream_of(hStream), hEvent, [&] { return real<kFunction>(hStream, hEvent, Flags); });
})

THERMOCLINE_HOOK_PAIR(cuEventRecord, _ptsz, (CUevent hEvent, CUstream hStream), {
  const RoomInQueue room(stream_of(hStream));
  return real<kFunction>(hEvent, hStream);
})
THERMOCLINE_HOOK_PAIR(cuEventRecordWithFlags, _ptsz, (CUevent hEvent, CUstream hStream, unsigned int flags), {
  const RoomInQueue room(stream_of(hStream));
  return real<kFunction>(hEvent, hStream, flags);
})

THERMOCLINE_HOOK_PAIR(cuLaunchHostFunc, _ptsz, (CUstream hStream, CUhostFn fn, void* userData), {
  return call_that_blocks(stream_of(hStream), [&] { return real<kFunction>(hStream, fn, userData); });
})
THERMOCLINE_HOOK_PAIR(cuLaunchHostFunc_v2, _ptsz,
                      (CUstream hStream, CUhostFn fn, void* userData, unsigned int syncMode), {
                        return call_that_blocks(stream_of(hStream),
                                                [&] { return real<kFunction>(hStream, fn, userData, syncMode); });
                      })
THERMOCLINE_HOOK_PAIR(cuStreamAddCallback, _ptsz,
                      (CUstream hStream, CUstreamCallback callback, void* userData, unsigned int flags), {
                        return call_that_blocks(stream_of(hStream),
                                                [&] { return real<kFunction>(hStream, callback, userData, flags); });
                      })

// The stream may be blocked until another API signals.
THERMOCLINE_HOOK_PAIR(cuWaitExternalSemaphoresAsync, _ptsz,
                      (const CUexternalSemaphore* extSemArray, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS* paramsArray,
                       unsigned int numExtSems, CUstream stream),
                      {
                        return call_that_blocks(stream_of(stream), [&] {
                          return real<kFunction>(extSemArray, paramsArray, numExtSems, stream);
                        });
                      })

THERMOCLINE_HOOK_PAIR(cuStreamBeginCapture, _ptsz, (CUstream hStream), {
  return captures().begin(stream_of(hStream), CU_STREAM_CAPTURE_MODE_GLOBAL, nullptr,
                          [&] { return real<kFunction>(hStream); });
})
THERMOCLINE_HOOK_PAIR(cuStreamBeginCapture_v2, _ptsz, (CUstream hStream, CUstreamCaptureMode mode), {
  return captures().begin(stream_of(hStream), mode, nullptr, [&] { return real<kFunction>(hStream, mode); });
})
THERMOCLINE_HOOK_PAIR(cuStreamBeginCaptureToGraph, _ptsz,
                      (CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
                       const CUgraphEdgeData* dependencyData, size_t numDependencies, CUstreamCaptureMode mode),
                      {
                        return captures().begin(stream_of(hStream), mode, hGraph, [&] {
                          return real<kFunction>(hStream, hGraph, dependencies, dependencyData, numDependencies, mode);
                        });
                      })
THERMOCLINE_HOOK_PAIR(cuStreamBeginRecaptureToGraph, _ptsz,
                      (CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,
                       CUgraphRecaptureCallback callbackFunc, void* userData),
                      {
                        return captures().begin(stream_of(hStream), mode, hGraph, [&] {
                          return real<kFunction>(hStream, mode, hGraph, callbackFunc, userData);
                        });
                      })
THERMOCLINE_HOOK_PAIR(cuStreamBeginCaptureToCig, _ptsz,
                      (CUstream hStream, CUstreamCigCaptureParams* streamCigCaptureParams), {
                        return captures().begin(stream_of(hStream), CU_STREAM_CAPTURE_MODE_RELAXED, nullptr,
                                                [&] { return real<kFunction>(hStream, streamCigCaptureParams); });
                      })
THERMOCLINE_HOOK_PAIR(cuStreamEndCaptureToCig, _ptsz, (CUstream hStream),
                      { return captures().end(stream_of(hStream), nullptr, [&] { return real<kFunction>(hStream); }); })
THERMOCLINE_HOOK_PAIR(cuStreamEndCapture, _ptsz, (CUstream hStream, CUgraph* phGraph), {
  return captures().end(stream_of(hStream), phGraph, [&] { return real<kFunction>(hStream, phGraph); });
})

extern "C" {

CUresult CUDAAPI cuStreamDestroy(CUstream hStream) {
  using namespace thermocline;
  return destroy(hStream, [&] { return real<Function::cuStreamDestroy>(hStream); });
}

CUresult CUDAAPI cuStreamDestroy_v2(CUstream hStream) {
  using namespace thermocline;
  return destroy(hStream, [&] { return real<Function::cuStreamDestroy_v2>(hStream); });
}

CUresult CUDAAPI cuCtxSynchronize() {
  using namespace thermocline;
  return wait_for_all(current_context(), [] { return real<Function::cuCtxSynchronize>(); });
}

CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext ctx) {
  using namespace thermocline;
  return wait_for_all(ctx, [ctx] { return real<Function::cuCtxSynchronize_v2>(ctx); });
}

}  // extern "C"
