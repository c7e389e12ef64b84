// SPDX-License-Identifier: Apache-2.0
// Devices: their number, the one that a thread uses, their limits, and resetting them.
#include "simulator/cudart/session.h"

namespace simulator::cudart {
namespace {

// Called before a device is chosen, so it must not create a context.
template <typename Body>
cudaError_t without_context(Body body) {
  const cudaError_t status = load_driver();
  return record(status == cudaSuccess ? body(driver()) : status);
}

}  // namespace
}  // namespace simulator::cudart

using namespace simulator::cudart;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return record(cudaErrorInvalidValue);
  *count = 0;
  return without_context([&](const Driver& table) {
    const cudaError_t status = CUDART_CALL(table, cuDeviceGetCount, count);
    return status == cudaSuccess && *count == 0 ? cudaErrorNoDevice : status;
  });
}

cudaError_t cudaSetDevice(int device) { return record(select_device(device)); }

cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
  return without_context([&](const Driver& table) {
    if ((flags & cudaInitDeviceFlagsAreValid) != 0) {
      const cudaError_t status = CUDART_CALL(table, cuDevicePrimaryCtxSetFlags, device, device_flags);
      if (status != cudaSuccess) return status;
    }
    CUcontext context = nullptr;
    return primary_context(device, &context);
  });
}

cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return record(cudaErrorInvalidValue);
  return without_context([&](const Driver&) {
    *device = current_device();
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return without_context([&](const Driver& table) {
    return CUDART_CALL(table, cuDeviceGetAttribute, value, static_cast<CUdevice_attribute>(attribute), device);
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return without_context(
      [&](const Driver& table) { return CUDART_CALL(table, cuDeviceGetPCIBusId, text, length, device); });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return without_context([&](const Driver& table) { return CUDART_CALL(table, cuDeviceGetByPCIBusId, device, text); });
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return without_context(
      [&](const Driver& table) { return CUDART_CALL(table, cuDevicePrimaryCtxSetFlags, current_device(), flags); });
}

cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  if (flags == nullptr) return record(cudaErrorInvalidValue);
  return without_context([&](const Driver& table) {
    int active = 0;
    return CUDART_CALL(table, cuDevicePrimaryCtxGetState, current_device(), flags, &active);
  });
}

cudaError_t cudaDeviceSynchronize() {
  return api([](const Driver& table) { return CUDART_CALL(table, cuCtxSynchronize); });
}

cudaError_t cudaDeviceReset() { return record(reset_device()); }

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  return api(
      [&](const Driver& table) { return CUDART_CALL(table, cuCtxGetLimit, value, static_cast<CUlimit>(limit)); });
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return api(
      [&](const Driver& table) { return CUDART_CALL(table, cuCtxSetLimit, static_cast<CUlimit>(limit), value); });
}

cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  return api([&](const Driver& table) {
    return CUDART_CALL(table, cuCtxGetCacheConfig, reinterpret_cast<CUfunc_cache*>(config));
  });
}

cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config) {
  return api(
      [&](const Driver& table) { return CUDART_CALL(table, cuCtxSetCacheConfig, static_cast<CUfunc_cache>(config)); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuCtxGetStreamPriorityRange, least, greatest); });
}

cudaError_t cudaCtxResetPersistingL2Cache() {
  return api([](const Driver& table) { return CUDART_CALL(table, cuCtxResetPersistingL2Cache); });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return without_context(
      [&](const Driver& table) { return CUDART_CALL(table, cuDeviceCanAccessPeer, can, device, peer); });
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int from, int to) {
  return without_context([&](const Driver& table) {
    return CUDART_CALL(table, cuDeviceGetP2PAttribute, value, static_cast<CUdevice_P2PAttribute>(attribute), from, to);
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return api([&](const Driver& table) {
    CUcontext context = nullptr;
    const cudaError_t status = primary_context(peer, &context);
    return status == cudaSuccess ? CUDART_CALL(table, cuCtxEnablePeerAccess, context, flags) : status;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return api([&](const Driver& table) {
    CUcontext context = nullptr;
    const cudaError_t status = primary_context(peer, &context);
    return status == cudaSuccess ? CUDART_CALL(table, cuCtxDisablePeerAccess, context) : status;
  });
}

}  // extern "C"
