// SPDX-License-Identifier: Apache-2.0
// The primary context: one for the device, counted, shared by every runtime in the process. Its handle never changes;
// when nobody retains it, it is inactive, and whoever still has it current learns that it is destroyed.
#include "simulator/cuda/call.h"
#include "simulator/cuda/context.h"
#include "simulator/cuda/memory_kinds.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

CUresult check(const Call& call, CUdevice device) {
  if (!call) return call.result();
  return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUcontext primary(State& state) {
  if (state.primary == nullptr) {
    state.primary = state.contexts.add(new_context(0, 3020));
    state.primary->is_primary = true;
    state.primary->is_active = false;
  }
  return state.primary;
}

void deactivate(Call& call) {
  call.machine().wait_all();
  release_all_of(call, primary(call.state()));
  call.state().primary_users = 0;
  primary(call.state())->is_active = false;
}

}  // namespace

SIMULATED_API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = primary(call.state());
  (*context)->is_active = true;
  ++call.state().primary_users;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  if (call.state().primary_users == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--call.state().primary_users == 0) deactivate(call);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }

SIMULATED_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  const unsigned users = call.state().primary_users;
  deactivate(call);
  // Whoever retained it still holds it: it comes back to life when it is used.
  call.state().primary_users = users;
  call.state().primary->is_active = users > 0;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }

SIMULATED_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  if ((flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) != 0) return CUDA_ERROR_INVALID_VALUE;
  primary(call.state())->flags = flags;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

SIMULATED_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  if (flags != nullptr) *flags = primary(call.state())->flags;
  if (active != nullptr) *active = primary(call.state())->is_active ? 1 : 0;
  return CUDA_SUCCESS;
}
