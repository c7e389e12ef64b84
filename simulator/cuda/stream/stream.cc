// SPDX-License-Identifier: Apache-2.0
// Streams, the order between them, and host functions in them.
#include "simulator/cuda/context/context.h"
#include "simulator/cuda/graph/capture.h"
#include "simulator/cuda/memory/pool_cache.h"

#include <algorithm>

using namespace simulator;
using namespace simulator::cuda;

namespace {

bool is_default(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

CUresult create(CUstream* out, unsigned flags, int priority, const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  if (out == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0) return CUDA_ERROR_INVALID_VALUE;
  CUstream_st stream;
  *out = new_stream(call, call.current(), flags, priority);
  return CUDA_SUCCESS;
}

}  // namespace

namespace simulator::cuda {

CUstream new_stream(Call& call, CUcontext context, unsigned flags, int priority) {
  CUstream_st stream;
  stream.id = call.machine().create_stream((flags & CU_STREAM_NON_BLOCKING) != 0, context->device);
  stream.context = context;
  stream.flags = flags;
  stream.priority = std::clamp(priority, kGreatestPriority, 0);
  return call.state().streams.add(stream);
}

void destroy(Call& call, CUstream stream) {
  forget_captured_stream(call, stream->id);
  forget_stream(call.state(), stream->id);
  call.machine().destroy_stream(stream->id);
  call.state().stream_numbers.erase(stream->id);
  call.state().streams.remove(stream);
}

}  // namespace simulator::cuda

SIMULATED_API CUresult cuStreamCreate(CUstream* stream, unsigned flags) { return create(stream, flags, 0); }

SIMULATED_API CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return create(stream, flags, priority);
}

SIMULATED_API CUresult cuStreamDestroy_v2(CUstream stream) {
  Call call;
  if (!call) return call.result();
  if (is_default(stream) || !call.state().streams.has(stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (!call.state().contexts.has(stream->context)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  destroy(call, stream);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuStreamSynchronize(CUstream stream) {
  Call call;
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (const CUresult result = may_disturb(call); result != CUDA_SUCCESS) return result;
  if (const CUresult result = may_wait_for_stream(call, id); result != CUDA_SUCCESS) return result;
  call.machine().charge(Cost::kStreamCall);
  const CUresult result = call.machine().wait_stream(id);
  trim_pools_to_thresholds(call);
  return result;
}

SIMULATED_API CUresult cuStreamQuery(CUstream stream) {
  Call call;
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (const CUresult result = may_disturb(call); result != CUDA_SUCCESS) return result;
  if (const CUresult result = may_wait_for_stream(call, id); result != CUDA_SUCCESS) return result;
  call.machine().charge(Cost::kStreamCall);
  const bool done = call.machine().query_stream(id);
  if (const CUresult fault = call.machine().error(); fault != CUDA_SUCCESS) return fault;
  return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIMULATED_API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  Call call;
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (!call.state().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (flags != CU_EVENT_WAIT_DEFAULT && flags != CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (flags == CU_EVENT_WAIT_EXTERNAL && captured(call.state(), id) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_SUCCESS;
  if (wait_captured(call, id, call.is_blocking(stream), event, flags == CU_EVENT_WAIT_EXTERNAL, &result)) return result;
  call.machine().stream_wait_event(id, event->id);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) {
  Call call;
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = is_default(stream) ? unsigned{CU_STREAM_DEFAULT} : stream->flags;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  Call call;
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = is_default(stream) ? 0 : stream->priority;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
  Call call;
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = call.machine().device_of(id);
  return CUDA_SUCCESS;
}

// Numbers are never reused, even when the machine reuses an id.
SIMULATED_API CUresult cuStreamGetId(CUstream stream, unsigned long long* number) {
  Call call;
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (number == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *number = call.state().number_of(id);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  Call call;
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = is_default(stream) ? call.current() : stream->context;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  Call call;
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (Captured* const recording = captured(call.state(), id)) {
    CUgraphNode_st node;
    if (const CUresult result = make_host_node({function, data}, &node); result != CUDA_SUCCESS) return result;
    return add_captured(call, *recording, std::move(node));
  }
  return cuda::submit(call, id, HostFunction{[=] { function(data); }});
}

SIMULATED_API CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned flags) {
  Call call;
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = may_wait_for_stream(call, id); result != CUDA_SUCCESS) return result;
  return cuda::submit(call, id, HostFunction{[=] { callback(stream, CUDA_SUCCESS, data); }});
}
