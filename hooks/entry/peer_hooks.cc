// SPDX-License-Identifier: Apache-2.0
// Calls by which a program gives one device access to the memory of another. The driver opens its own memory; the
// engine's memory is opened here (peers.h). When the program revokes the access, the engine's memory stays open: a
// program that respects its own settings cannot tell the difference.
#include "hooks/runtime/guarded.h"
#include "hooks/submit/allocation.h"
#include "hooks/submit/peers.h"

namespace thermocline {
namespace {

std::optional<CUdevice> device_of(CUcontext context) {
  const CurrentContext current(context);
  CUdevice device = 0;
  if (real<Function::cuCtxGetDevice>(&device) != CUDA_SUCCESS) return std::nullopt;
  return device;
}

}  // namespace
}  // namespace thermocline

extern "C" {

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  using namespace thermocline;
  const CUresult result = real<Function::cuCtxEnablePeerAccess>(peerContext, Flags);
  if (Inside::now() || (result != CUDA_SUCCESS && result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)) return result;
  return guarded([&] {
    CUdevice device = 0;
    const std::optional<CUdevice> peer = device_of(peerContext);
    if (peer.has_value() && real<Function::cuCtxGetDevice>(&device) == CUDA_SUCCESS) lets_use(device, *peer);
    return result;
  });
}

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  using namespace thermocline;
  const CUresult result = real<Function::cuMemPoolSetAccess>(pool, map, count);
  if (result != CUDA_SUCCESS || map == nullptr || Inside::now()) return result;
  return guarded([&] {
    const std::optional<CUdevice> memory_of = device_of_plain_pool(pool);
    for (size_t i = 0; i < count && memory_of.has_value(); ++i) {
      const CUmemAccessDesc& one = map[i];
      if (one.location.type == CU_MEM_LOCATION_TYPE_DEVICE && one.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
        lets_use(one.location.id, *memory_of);
    }
    return result;
  });
}

}  // extern "C"
