// SPDX-License-Identifier: Apache-2.0
// Device memory as cuMemAlloc returns it, managed memory, and other calls about memory.
#include "simulator/cuda/graph/capture.h"
#include "simulator/cuda/graph/graph_memory.h"
#include "simulator/cuda/memory/memory_kinds.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

constexpr Bytes kPitch = 512;

CUresult check_location(Call& call, const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return call.has_device(location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Managed memory is never moved: hints are checked and have no effect.
CUresult check_managed(Call& call, CUdeviceptr at, std::size_t bytes) {
  const auto* found = call.state().allocation_at(at);
  if (found == nullptr || found->second.kind != AllocationKind::kManaged || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return at - found->first + bytes <= found->second.bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult prefetch(CUdeviceptr at, std::size_t bytes, CUmemLocation location, unsigned flags, CUstream stream,
                  const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_location(call, location); result != CUDA_SUCCESS) return result;
  return check_managed(call, at, bytes);
}

CUmemLocation location_of(CUdevice device) {
  CUmemLocation location = {};
  location.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device == CU_DEVICE_CPU ? 0 : device;
  return location;
}

}  // namespace

SIMULATED_API CUresult cuMemAlloc_v2(CUdeviceptr* out, std::size_t bytes) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = may_disturb(call); result != CUDA_SUCCESS) return result;
  Address at = 0;
  if (const CUresult result = allocate(call, bytes, AllocationKind::kDevice, &at); result != CUDA_SUCCESS)
    return result;
  *out = at;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuMemAllocPitch_v2(CUdeviceptr* out, std::size_t* pitch, std::size_t width, std::size_t height,
                                          unsigned element) {
  if (pitch == nullptr || width == 0 || height == 0 || width > SIZE_MAX / 2 ||
      (element != 4 && element != 8 && element != 16))
    return CUDA_ERROR_INVALID_VALUE;
  const Bytes row = round_up(width, kPitch);
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(row, height, &bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = cuMemAlloc_v2(out, bytes);
  if (result == CUDA_SUCCESS) *pitch = row;
  return result;
}

SIMULATED_API CUresult cuMemAllocManaged(CUdeviceptr* out, std::size_t bytes, unsigned flags) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  Address at = 0;
  if (const CUresult result = allocate(call, bytes, AllocationKind::kManaged, &at); result != CUDA_SUCCESS)
    return result;
  *out = at;
  return CUDA_SUCCESS;
}

// Waits for everything that is pending, as real drivers do.
SIMULATED_API CUresult cuMemFree_v2(CUdeviceptr at) {
  Call call;
  if (!call) return call.result();
  if (at == 0) return CUDA_SUCCESS;
  if (GraphMemory* const memory = graph_memory_at(call.state(), at)) return free_graph_memory_now(call, *memory);
  const auto found = call.state().allocations.find(at);
  if (found == call.state().allocations.end() || found->second.kind == AllocationKind::kOpened)
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = may_disturb(call); result != CUDA_SUCCESS) return result;
  const bool waits = found->second.kind != AllocationKind::kPool;  // "may perform implicit synchronization", and all do
  const CUresult fault = call.machine().wait_to_free("cuMemFree", at, found->second.bytes, waits);
  Released released;
  if (const CUresult result = release(call, at, &released); result != CUDA_SUCCESS) return result;
  const CUresult result = call.machine().free(at);
  return fault != CUDA_SUCCESS ? fault : result;
}

SIMULATED_API CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  Call call;
  if (!call) return call.result();
  if (free != nullptr) *free = call.machine().free_bytes(call.device());
  if (total != nullptr) *total = call.machine().capacity();
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr at) {
  Call call;
  if (!call) return call.result();
  Address begin = 0;
  Bytes length = 0;
  if (const auto* found = call.state().allocation_at(at)) {
    begin = found->first;
    length = found->second.bytes;
  } else if (!call.machine().mapping_at(at, &begin, &length) &&
             !call.machine().pinned_at(reinterpret_cast<const void*>(at), &begin, &length)) {
    return CUDA_ERROR_NOT_FOUND;
  }
  if (base != nullptr) *base = begin;
  if (bytes != nullptr) *bytes = length;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuMemAdvise_v2(CUdeviceptr at, std::size_t bytes, CUmem_advise, CUmemLocation location) {
  Call call;
  if (!call) return call.result();
  if (const CUresult result = check_location(call, location); result != CUDA_SUCCESS) return result;
  return check_managed(call, at, bytes);
}

SIMULATED_API CUresult cuMemAdvise(CUdeviceptr at, std::size_t bytes, CUmem_advise advice, CUdevice device) {
  return cuMemAdvise_v2(at, bytes, advice, location_of(device));
}

SIMULATED_API CUresult cuMemPrefetchAsync_v2(CUdeviceptr at, std::size_t bytes, CUmemLocation location, unsigned flags,
                                             CUstream stream) {
  return prefetch(at, bytes, location, flags, stream);
}

SIMULATED_API CUresult cuMemPrefetchAsync(CUdeviceptr at, std::size_t bytes, CUdevice device, CUstream stream) {
  return prefetch(at, bytes, location_of(device), 0, stream);
}

SIMULATED_API CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr at, std::size_t, unsigned) {
  Call call;
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  const auto* found = call.state().allocation_at(at);
  return found != nullptr && found->second.kind == AllocationKind::kManaged ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
