// SPDX-License-Identifier: Apache-2.0
// Calls that pass an address to a user whose accesses cannot be seen: another process, a network card, a texture. The
// buffer is fetched and pinned. Whether the call is supported for mapped memory is the driver's decision.
#include "hooks/operands/escaped.h"
#include "hooks/runtime/counters.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/heap_memory.h"
#include "hooks/submit/late_frees.h"
#include "hooks/submit/stream_queues.h"
#include "hooks/submit/submit.h"

namespace thermocline {
namespace {

AccessList at(CUdeviceptr address) { return AccessList().word(address); }
AccessList at(const void* address) { return at(reinterpret_cast<CUdeviceptr>(address)); }

AccessList in(const CUDA_RESOURCE_DESC* resource) {
  if (resource == nullptr) return {};
  if (resource->resType == CU_RESOURCE_TYPE_LINEAR) return at(resource->res.linear.devPtr);
  if (resource->resType == CU_RESOURCE_TYPE_PITCH2D) return at(resource->res.pitch2D.devPtr);
  return {};
}

constexpr const char* kTexture = "a texture reads it";

void say_refused(CUresult answer) {
  count(Counter::kRefusedShares);
  THERMOCLINE_LOG_ONCE(
      LogLevel::kWarning,
      "the driver does not share memory of the library with other processes or devices (error %d): set shareable = "
      "true (THERMOCLINE_SHAREABLE=1), which leaves to the driver what cuMemAlloc gives",
      static_cast<int>(answer));
}

// The buffer is pinned permanently only if the driver has shared it. The older calls cannot share mapped memory, such
// as the engine's: then a message tells the user what would help.
CUresult share(CUdeviceptr address, const char* reason, Call call) {
  if (owner_now(DeviceAddress{address}) == nullptr) {
    keep_from_cache(address);
    return call();
  }
  bool asked = false;
  const CUresult result = keep(at(address), reason, [&] {
    const Inside inside;
    asked = true;
    return call();
  });
  // A call that this driver does not support at all has not failed because of the library.
  if (asked && result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_SUPPORTED) say_refused(result);
  return result;
}

// The engine of the current context; null if there is none.
const ActiveEngine* engine_of_current() {
  const EngineSet* const engines = engines_now();
  CUcontext current = nullptr;
  if (engines == nullptr || Runtime::get().broken() || real<Function::cuCtxGetCurrent>(&current) != CUDA_SUCCESS) {
    return nullptr;
  }
  return engines->in(current);
}

CUresult destroy_texture(CUtexObject texture) {
  const ActiveEngine* const active = engine_of_current();
  if (active == nullptr) return real<Function::cuTexObjectDestroy>(texture);
  return guarded([&] {
    if (is_destroyed_late(*active, texture)) return CUDA_ERROR_INVALID_VALUE;
    return destroy_texture_later(*active, texture) ? CUDA_SUCCESS : real<Function::cuTexObjectDestroy>(texture);
  });
}

}  // namespace
}  // namespace thermocline

extern "C" {

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) {
  using namespace thermocline;
  return share(dptr, "shared with another process", [&] { return real<Function::cuIpcGetMemHandle>(pHandle, dptr); });
}

CUresult CUDAAPI cuMemGetHandleForAddressRange(void* handle, CUdeviceptr dptr, size_t size,
                                               CUmemRangeHandleType handleType, unsigned long long flags) {
  using namespace thermocline;
  return share(dptr, "exported",
               [&] { return real<Function::cuMemGetHandleForAddressRange>(handle, dptr, size, handleType, flags); });
}

CUresult CUDAAPI cuTexObjectCreate(CUtexObject* pTexObject, const CUDA_RESOURCE_DESC* pResDesc,
                                   const CUDA_TEXTURE_DESC* pTexDesc, const CUDA_RESOURCE_VIEW_DESC* pResViewDesc) {
  using namespace thermocline;
  return keep(in(pResDesc), kTexture, [&] {
    const CUresult result = real<Function::cuTexObjectCreate>(pTexObject, pResDesc, pTexDesc, pResViewDesc);
    const ActiveEngine* const active = result == CUDA_SUCCESS ? engine_of_current() : nullptr;
    if (active != nullptr) is_a_new_texture(*active, *pTexObject);
    return result;
  });
}

CUresult CUDAAPI cuTexObjectDestroy(CUtexObject texObject) {
  using namespace thermocline;
  return destroy_texture(texObject);
}

CUresult CUDAAPI cuTexRefSetAddress_v2(size_t* ByteOffset, CUtexref hTexRef, CUdeviceptr dptr, size_t bytes) {
  using namespace thermocline;
  return keep(at(dptr), kTexture,
              [&] { return real<Function::cuTexRefSetAddress_v2>(ByteOffset, hTexRef, dptr, bytes); });
}

CUresult CUDAAPI cuTexRefSetAddress2D_v2(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR* desc, CUdeviceptr dptr,
                                         size_t Pitch) {
  using namespace thermocline;
  return keep(at(dptr), kTexture, [&] { return real<Function::cuTexRefSetAddress2D_v2>(hTexRef, desc, dptr, Pitch); });
}

CUresult CUDAAPI cuTexRefSetAddress2D_v3(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR* desc, CUdeviceptr dptr,
                                         size_t Pitch) {
  using namespace thermocline;
  return keep(at(dptr), kTexture, [&] { return real<Function::cuTexRefSetAddress2D_v3>(hTexRef, desc, dptr, Pitch); });
}

CUresult CUDAAPI cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr,
                                     size_t size, unsigned long long flags) {
  using namespace thermocline;
  return keep(at(memptr), "bound to a multicast object",
              [&] { return real<Function::cuMulticastBindAddr>(mcHandle, mcOffset, memptr, size, flags); });
}

CUresult CUDAAPI cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                        CUdeviceptr memptr, size_t size, unsigned long long flags) {
  using namespace thermocline;
  return keep(at(memptr), "bound to a multicast object",
              [&] { return real<Function::cuMulticastBindAddr_v2>(mcHandle, dev, mcOffset, memptr, size, flags); });
}

CUresult CUDAAPI cuLogicalEndpointBindAddr(CUlogicalEndpointId leId, CUdevice dev, cuuint64_t offset, void* ptr,
                                           cuuint64_t size, unsigned long long flags) {
  using namespace thermocline;
  return keep(at(ptr), "bound to a logical endpoint",
              [&] { return real<Function::cuLogicalEndpointBindAddr>(leId, dev, offset, ptr, size, flags); });
}

}  // extern "C"
