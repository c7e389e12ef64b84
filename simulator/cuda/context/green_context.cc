// SPDX-License-Identifier: Apache-2.0
// Green contexts: the primary context's memory and modules, streams of their own, and a part of the multiprocessors,
// which the time line does not know. Each retains the primary context. The handle is the one of its context.
// Source: CUDA driver API, "Green Contexts".
#include "simulator/cuda/context/context.h"
#include "simulator/cuda/context/device_attributes.h"
#include "simulator/cuda/graph/capture.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

CUcontext context_of(CUgreenCtx green) { return reinterpret_cast<CUcontext>(green); }
CUgreenCtx green_of(CUcontext context) { return reinterpret_cast<CUgreenCtx>(context); }

bool is_green(Call& call, CUgreenCtx green) {
  return call.state().contexts.has(context_of(green)) && context_of(green)->green_of != nullptr;
}

// A descriptor only describes the multiprocessors, which are not tracked here.
CUdevResourceDesc any_description() {
  static constexpr char description = 0;
  return reinterpret_cast<CUdevResourceDesc>(const_cast<char*>(&description));
}

}  // namespace

SIMULATED_API CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (!call.has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (resource == nullptr || type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_VALUE;
  *resource = {};
  resource->type = type;
  resource->sm.smCount =
      static_cast<unsigned>(device_attribute(call.machine().profile(), CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* description, CUdevResource* resources,
                                                 unsigned count) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (description == nullptr || resources == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  *description = any_description();
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuGreenCtxCreate(CUgreenCtx* out, CUdevResourceDesc description, CUdevice device,
                                        unsigned flags) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (!call.has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr || description != any_description() || flags != CU_GREEN_CTX_DEFAULT_STREAM)
    return CUDA_ERROR_INVALID_VALUE;
  const CUcontext primary = retain_primary(call, device);
  CUctx_st context = new_context(0, 12040, static_cast<DeviceId>(device));
  context.green_of = primary;
  *out = green_of(call.state().contexts.add(context));
  return CUDA_SUCCESS;
}

// Its streams remain, but are of no use; their captures end.
SIMULATED_API CUresult cuGreenCtxDestroy(CUgreenCtx green) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (!is_green(call, green)) return CUDA_ERROR_INVALID_CONTEXT;
  const CUdevice device = context_of(green)->device;
  call.machine().wait_device(context_of(green)->device);
  call.state().streams.for_each([&](const CUstream_st& stream) {
    if (stream.context == context_of(green)) forget_captured_stream(call, stream.id);
  });
  call.state().contexts.remove(context_of(green));
  return release_primary(call, device);
}

SIMULATED_API CUresult cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx green) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_green(call, green)) return CUDA_ERROR_INVALID_CONTEXT;
  *context = context_of(green);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuGreenCtxStreamCreate(CUstream* out, CUgreenCtx green, unsigned flags, int priority) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (!is_green(call, green)) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *out = new_stream(call, context_of(green), flags, priority);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext* context, CUgreenCtx* green) {
  const CUresult result = cuStreamGetCtx(stream, context);
  if (result != CUDA_SUCCESS) return result;
  const CUcontext primary = (*context)->green_of;
  if (green != nullptr) *green = primary == nullptr ? nullptr : green_of(*context);
  if (primary != nullptr) *context = primary;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx* green) {
  CUcontext primary = nullptr;
  return green == nullptr ? CUDA_ERROR_INVALID_VALUE : cuStreamGetCtx_v2(stream, &primary, green);
}
