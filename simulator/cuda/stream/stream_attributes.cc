// SPDX-License-Identifier: Apache-2.0
// Attributes of streams, which are stored and have no effect.
#include "simulator/cuda/call.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

// Attributes are stored for streams that have an object; default streams have the default values.
CUresult find(Call& call, CUstream stream) {
  if (!call) return call.result();
  StreamId id = 0;
  return call.find(stream, &id);
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
