// SPDX-License-Identifier: Apache-2.0
// Events; their times are the device's, so elapsed times are virtual.
#include "simulator/cuda/graph/capture.h"
#include "simulator/cuda/memory/pool_cache.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

constexpr unsigned kKnownFlags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

// Events of a green context are those of its primary one.
CUcontext context_of(const Call& call, CUstream stream) {
  const bool is_default = stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  if (is_default) return call.context();
  const CUcontext context = stream->context;
  return context->green_of != nullptr ? context->green_of : context;
}

CUresult record(CUevent event, CUstream stream, unsigned flags, const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (!call.state().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (event->context != context_of(call, stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (flags != CU_EVENT_RECORD_DEFAULT && flags != CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  Captured* const recording = captured(call.state(), id);
  const bool external = flags == CU_EVENT_RECORD_EXTERNAL;
  if (recording != nullptr) return record_captured(call, event, *recording, external);
  if (external) return CUDA_ERROR_INVALID_VALUE;  // only meaningful as a node of a graph
  if (call.machine().is_legacy(id)) {
    if (const CUresult result = may_wait_for_stream(call, id); result != CUDA_SUCCESS) return result;
  }
  event->captured = {};
  call.machine().record_event(event->id, id);
  return CUDA_SUCCESS;
}

// An event that was recorded in a capture has no time, and querying it invalidates a capture that has not ended.
CUresult may_ask(Call& call, CUevent event) {
  if (Capture* const capture = event->captured.capture.get()) {
    if (!capture->is_over) invalidate(*capture, CUDA_ERROR_CAPTURED_EVENT);
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  return may_disturb(call);
}

}  // namespace

SIMULATED_API CUresult cuEventCreate(CUevent* event, unsigned flags) {
  Call call;
  if (!call) return call.result();
  if (event == nullptr || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0) return CUDA_ERROR_INVALID_VALUE;
  CUevent_st object;
  object.id = call.machine().create_event();
  object.device = call.device();
  object.context = call.context();
  object.flags = flags;
  *event = call.state().events.add(object);
  return CUDA_SUCCESS;
}

namespace simulator::cuda {

void destroy(Call& call, CUevent event) {
  call.machine().destroy_event(event->id);
  call.state().events.remove(event);
}

}  // namespace simulator::cuda

SIMULATED_API CUresult cuEventDestroy_v2(CUevent event) {
  Call call;
  if (!call) return call.result();
  if (!call.state().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  destroy(call, event);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuEventRecord(CUevent event, CUstream stream) { return record(event, stream, 0); }

SIMULATED_API CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return record(event, stream, flags);
}

SIMULATED_API CUresult cuEventQuery(CUevent event) {
  Call call;
  if (!call) return call.result();
  if (!call.state().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult result = may_ask(call, event); result != CUDA_SUCCESS) return result;
  call.machine().charge(Cost::kStreamCall);
  const OperationId operation = call.machine().recorded(event->id);
  const bool done = call.machine().query(operation);
  if (const CUresult fault = call.machine().error(); fault != CUDA_SUCCESS) return fault;
  return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIMULATED_API CUresult cuEventSynchronize(CUevent event) {
  Call call;
  if (!call) return call.result();
  if (!call.state().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult result = may_ask(call, event); result != CUDA_SUCCESS) return result;
  call.machine().charge(Cost::kStreamCall);
  const CUresult result = call.machine().wait(call.machine().recorded(event->id));
  trim_pools_to_thresholds(call);
  return result;
}

SIMULATED_API CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent begin, CUevent end) {
  Call call;
  if (!call) return call.result();
  if (!call.state().events.has(begin) || !call.state().events.has(end)) return CUDA_ERROR_INVALID_HANDLE;
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (begin->device != end->device) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult result = may_ask(call, begin); result != CUDA_SUCCESS) return result;
  if (const CUresult result = may_ask(call, end); result != CUDA_SUCCESS) return result;
  if (((begin->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
  call.machine().charge(Cost::kStreamCall);
  call.machine().poll();
  Time elapsed = 0;
  if (const CUresult result = call.machine().elapsed(begin->id, end->id, &elapsed); result != CUDA_SUCCESS)
    return result;
  *milliseconds = static_cast<float>(static_cast<double>(elapsed) / 1e6);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, begin, end);
}
