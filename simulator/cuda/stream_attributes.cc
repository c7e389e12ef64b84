// SPDX-License-Identifier: Apache-2.0
// Attributes of streams, which are remembered and change nothing, and the state of captures: there are none.
#include "simulator/cuda/call.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

// Attributes are kept for streams that have an object; the default streams have the defaults.
CUresult find(Call& call, CUstream stream) {
  if (!call) return call.result();
  StreamId id = 0;
  return call.find(stream, &id);
}

CUresult capture_status(CUstream stream, CUstreamCaptureStatus* status, const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (const CUresult result = find(call, stream); result != CUDA_SUCCESS) return result;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue* value) {
  Call call;
  if (const CUresult result = find(call, stream); result != CUDA_SUCCESS) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *value = {};
  if (!call.state().streams.has(stream)) return CUDA_SUCCESS;
  const auto found = stream->attributes.find(static_cast<int>(attribute));
  if (found != stream->attributes.end()) *value = found->second;
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) value->priority = stream->priority;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue* value) {
  Call call;
  if (const CUresult result = find(call, stream); result != CUDA_SUCCESS) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().streams.has(stream)) return CUDA_SUCCESS;
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) stream->priority = value->priority;
  stream->attributes[static_cast<int>(attribute)] = *value;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  Call call;
  if (const CUresult result = find(call, to); result != CUDA_SUCCESS) return result;
  if (const CUresult result = find(call, from); result != CUDA_SUCCESS) return result;
  if (call.state().streams.has(to) && call.state().streams.has(from)) to->attributes = from->attributes;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return capture_status(stream, status);
}

SIMULATED_API CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t*) {
  return capture_status(stream, status);
}

SIMULATED_API CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph*,
                                                 const CUgraphNode**, std::size_t*) {
  return capture_status(stream, status);
}

SIMULATED_API CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph*,
                                                 const CUgraphNode**, const CUgraphEdgeData**, std::size_t*) {
  return capture_status(stream, status);
}

SIMULATED_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  static thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  std::swap(current, *mode);
  return CUDA_SUCCESS;
}
