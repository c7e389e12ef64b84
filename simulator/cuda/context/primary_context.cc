// SPDX-License-Identifier: Apache-2.0
// The primary contexts: one per device, reference-counted, shared by every runtime in the process. A handle never
// changes. A context that nobody retains is inactive, and calls of threads that still have it current fail with
// CUDA_ERROR_CONTEXT_IS_DESTROYED.
#include "simulator/cuda/call.h"
#include "simulator/cuda/context/context.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

CUresult check(Call& call, CUdevice device) {
  if (!call) return call.result();
  return call.has_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

State::OfDevice& of(State& state, CUdevice device) { return state.devices[static_cast<std::size_t>(device)]; }

CUcontext primary(State& state, CUdevice device) {
  CUcontext& found = of(state, device).primary;
  if (found == nullptr) {
    found = state.contexts.add(new_context(0, 3020, static_cast<DeviceId>(device)));
    found->is_primary = true;
    found->is_active = false;
  }
  return found;
}

void deactivate(Call& call, CUdevice device) {
  const CUcontext context = primary(call.state(), device);
  end_contents_of(call, context);
  of(call.state(), device).primary_users = 0;
  context->is_active = false;
}

}  // namespace

namespace simulator::cuda {

CUcontext retain_primary(Call& call, CUdevice device) {
  const CUcontext context = primary(call.state(), device);
  context->is_active = true;
  ++of(call.state(), device).primary_users;
  return context;
}

CUresult release_primary(Call& call, CUdevice device) {
  if (of(call.state(), device).primary_users == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--of(call.state(), device).primary_users == 0) deactivate(call, device);
  return CUDA_SUCCESS;
}

}  // namespace simulator::cuda

SIMULATED_API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = retain_primary(call, device);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  return release_primary(call, device);
}

SIMULATED_API CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }

SIMULATED_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  const unsigned users = of(call.state(), device).primary_users;
  deactivate(call, device);
  // Users that retained it still have their references: it becomes active again when it is used.
  of(call.state(), device).primary_users = users;
  primary(call.state(), device)->is_active = users > 0;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }

SIMULATED_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  if ((flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) != 0) return CUDA_ERROR_INVALID_VALUE;
  primary(call.state(), device)->flags = flags;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

SIMULATED_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  if (flags != nullptr) *flags = primary(call.state(), device)->flags;
  if (active != nullptr) *active = primary(call.state(), device)->is_active ? 1 : 0;
  return CUDA_SUCCESS;
}
