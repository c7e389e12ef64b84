// SPDX-License-Identifier: Apache-2.0
// Device, managed and pinned host memory; pointer attributes.
#include "simulator/cudart/convert.h"
#include "simulator/cudart/same.h"

#include <array>

namespace simulator::cudart {
namespace {

// Pitches are chosen for elements of up to 16 bytes, the largest single access.
constexpr unsigned kElementBytes = 16;

cudaError_t allocate(void** pointer, size_t bytes) {
  if (pointer == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    // Size 0: the runtime returns no address where the driver refuses.
    *pointer = nullptr;
    return bytes == 0 ? cudaSuccess : CUDART_CALL(table, cuMemAlloc, address_out(pointer), bytes);
  });
}

cudaError_t allocate_pitched(void** pointer, size_t* pitch, size_t width, size_t rows) {
  if (pointer == nullptr || pitch == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    *pointer = nullptr;
    *pitch = 0;
    if (width == 0 || rows == 0) return cudaSuccess;
    return CUDART_CALL(table, cuMemAllocPitch, address_out(pointer), pitch, width, rows, kElementBytes);
  });
}

cudaError_t allocate_host(void** pointer, size_t bytes, unsigned flags) {
  if (pointer == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    *pointer = nullptr;
    return bytes == 0 ? cudaSuccess : CUDART_CALL(table, cuMemHostAlloc, pointer, bytes, flags);
  });
}

cudaMemoryType type_of(unsigned driver_type, bool managed) {
  if (managed) return cudaMemoryTypeManaged;
  if (driver_type == CU_MEMORYTYPE_HOST) return cudaMemoryTypeHost;
  return driver_type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
}

cudaError_t describe(const Driver& table, const void* pointer, cudaPointerAttributes* attributes) {
  unsigned type = 0;
  unsigned managed = 0;
  int device = -1;
  void* on_device = nullptr;
  void* on_host = nullptr;
  std::array<CUpointer_attribute, 5> asked = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                              CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                              CU_POINTER_ATTRIBUTE_HOST_POINTER};
  std::array<void*, 5> answers = {&type, &managed, &device, &on_device, &on_host};
  const cudaError_t status = CUDART_CALL(table, cuPointerGetAttributes, static_cast<unsigned>(asked.size()),
                                         asked.data(), answers.data(), address(pointer));
  if (status != cudaSuccess) return status;
  *attributes = {};
  attributes->type = type_of(type, managed != 0);
  attributes->device = device;
  attributes->devicePointer = on_device;
  attributes->hostPointer = attributes->type == cudaMemoryTypeUnregistered ? const_cast<void*>(pointer) : on_host;
  // An ordinary host address is not an error: the driver knows no device for it, and the runtime returns -2
  // (cudaInvalidDeviceId).
  if (attributes->type == cudaMemoryTypeUnregistered) attributes->device = cudaInvalidDeviceId;
  return cudaSuccess;
}

cudaError_t prefetch(Rule rule, const void* begin, size_t bytes, cudaMemLocation location, unsigned flags,
                     cudaStream_t stream) {
  return api(rule, [&](const Driver& table) {
    const CUmemLocation to = {static_cast<CUmemLocationType>(location.type), location.id};
    return CUDART_CALL(table, cuMemPrefetchAsync, address(begin), bytes, to, flags, stream);
  });
}

}  // namespace
}  // namespace simulator::cudart

using namespace simulator::cudart;

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) { return allocate(pointer, bytes); }

cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  return allocate_pitched(pointer, pitch, width, height);
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* pitched, cudaExtent extent) {
  if (pitched == nullptr) return record(cudaErrorInvalidValue);
  pitched->xsize = extent.width;
  pitched->ysize = extent.height;
  return allocate_pitched(&pitched->ptr, &pitched->pitch, extent.width, extent.height * extent.depth);
}

cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
  if (pointer == nullptr || bytes == 0) return record(cudaErrorInvalidValue);
  return api(
      [&](const Driver& table) { return CUDART_CALL(table, cuMemAllocManaged, address_out(pointer), bytes, flags); });
}

cudaError_t cudaFree(void* pointer) {
  return api([&](const Driver& table) {
    return pointer == nullptr ? cudaSuccess : CUDART_CALL(table, cuMemFree, address(pointer));
  });
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) { return allocate_host(pointer, bytes, cudaHostAllocDefault); }

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) { return allocate_host(pointer, bytes, flags); }

cudaError_t cudaFreeHost(void* pointer) {
  return api([&](const Driver& table) {
    return pointer == nullptr ? cudaSuccess : CUDART_CALL(table, cuMemFreeHost, pointer);
  });
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuMemHostRegister, pointer, bytes, flags); });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuMemHostUnregister, pointer); });
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  if (device == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    return CUDART_CALL(table, cuMemHostGetDevicePointer, address_out(device), host, flags);
  });
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuMemHostGetFlags, flags, host); });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuMemGetInfo, free, total); });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (attributes == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) { return describe(table, pointer, attributes); });
}

cudaError_t cudaMemAdvise(const void* begin, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location) {
  return api([&](const Driver& table) {
    const CUmemLocation at = {static_cast<CUmemLocationType>(location.type), location.id};
    return CUDART_CALL(table, cuMemAdvise, address(begin), bytes, static_cast<CUmem_advise>(advice), at);
  });
}

}  // extern "C"

CUDART_BOTH(cudaMemPrefetchAsync, _ptsz, prefetch,
            (const void* begin, size_t bytes, cudaMemLocation location, unsigned flags, cudaStream_t stream),
            (begin, bytes, location, flags, stream))

CUDART_SAME(cudaMemRangeGetAttribute, cuMemRangeGetAttribute,
            (void* data, size_t size, cudaMemRangeAttribute attribute, const void* begin, size_t bytes), data, size,
            static_cast<CUmem_range_attribute>(attribute), address(begin), bytes)
CUDART_SAME(cudaMemRangeGetAttributes, cuMemRangeGetAttributes,
            (void** data, size_t* sizes, cudaMemRangeAttribute* attributes, size_t count, const void* begin,
             size_t bytes),
            data, sizes, as_driver<CUmem_range_attribute*>(attributes), count, address(begin), bytes)
