// SPDX-License-Identifier: Apache-2.0
// Simplification: access belongs to devices, not to contexts. As long as one context of a device is a peer of one
// context of another, the first device may access everything that the other one allocates.
#include "simulator/cuda/context/peer.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

// The calls here need no context.
CUresult check_pair(Call& call, CUdevice device, CUdevice peer) {
  if (!call) return call.result();
  return call.has_device(device) && call.has_device(peer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

// Sets what `device` may do with the allocations of `owner`, from what its contexts have enabled.
void set_access_of_peer(Call& call, DeviceId device, DeviceId owner) {
  if (device == owner) return;
  bool is_peer = false;
  call.state().contexts.for_each([&](const CUctx_st& context) {
    if (context.device != device) return;
    for (const CUcontext peer : context.peers) is_peer = is_peer || peer->device == owner;
  });
  call.machine().set_heap_access(owner, device, is_peer ? Access::kReadWrite : Access::kNone);
}

}  // namespace

namespace simulator::cuda {

void forget_peer(Call& call, CUcontext context) {
  context->peers.clear();
  call.state().contexts.for_each([&](CUctx_st& other) { other.peers.erase(context); });
  for (DeviceId device = 0; device < call.machine().devices(); ++device) {
    set_access_of_peer(call, context->device, device);
    set_access_of_peer(call, device, context->device);
  }
}

}  // namespace simulator::cuda

SIMULATED_API CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  Call call(Needs::kDriver);
  if (const CUresult result = check_pair(call, device, peer); result != CUDA_SUCCESS) return result;
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *can = device == peer ? 0 : 1;  // a device is not its own peer
  return CUDA_SUCCESS;
}

// All devices are alike, on one bus without atomics.
SIMULATED_API CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice device,
                                               CUdevice peer) {
  Call call(Needs::kDriver);
  if (const CUresult result = check_pair(call, device, peer); result != CUDA_SUCCESS) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device == peer) return CUDA_ERROR_INVALID_DEVICE;  // must be two different devices
  *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ? 1 : 0;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  Call call;
  if (!call) return call.result();
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().contexts.has(peer)) return CUDA_ERROR_INVALID_CONTEXT;
  if (peer->device == call.device()) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  if (!call.context()->peers.insert(peer).second) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  set_access_of_peer(call, call.device(), peer->device);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  Call call;
  if (!call) return call.result();
  if (!call.state().contexts.has(peer)) return CUDA_ERROR_INVALID_CONTEXT;
  if (call.context()->peers.erase(peer) == 0) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  set_access_of_peer(call, call.device(), peer->device);
  return CUDA_SUCCESS;
}
