// SPDX-License-Identifier: Apache-2.0
// Queries about memory. The answers are those for plain device memory, whether or not it is resident. The size of the
// device is what the setting `advertise` says, by default the budget.
#include <algorithm>
#include <optional>

#include "hooks/entry/advertise.h"
#include "hooks/entry/pool_usage.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/heap_memory.h"
#include "hooks/submit/submit.h"
#include "hooks/submit/sync_memops.h"

namespace thermocline {
namespace {

// The driver numbers its own buffers from 1. The library's numbers have the highest bit set, and the device in the bits
// after it.
constexpr std::uint64_t kOurNumbers = std::uint64_t{1} << 63;
constexpr unsigned kDeviceBits = 56;

// Nobody allocates in the first page, so the driver's answer for it is the one for "no such memory".
constexpr CUdeviceptr kNobodysAddress = 16;

enum class Owner { kDriver, kProgram, kNobody };

struct Found {
  Owner owner = Owner::kDriver;
  const ActiveEngine* active = nullptr;
  BufferFacts buffer;
};

Found find(CUdeviceptr address) {
  Found found;
  found.active = owner_now(DeviceAddress{address});
  if (found.active == nullptr) return found;
  found.owner = Owner::kNobody;
  const Inside inside;
  const std::optional<BufferFacts> buffer = found.active->engine->find(DeviceAddress{address});
  if (!buffer.has_value()) return found;
  found.owner = Owner::kProgram;
  found.buffer = *buffer;
  return found;
}

template <class T>
CUresult give(void* data, T value) {
  *static_cast<T*>(data) = value;
  return CUDA_SUCCESS;
}

// CUDA_ERROR_NOT_FOUND: an attribute that is not known here.
CUresult attribute(const Found& found, CUdeviceptr address, CUpointer_attribute wanted, void* data) {
  const BufferFacts& buffer = found.buffer;
  switch (wanted) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(data, found.active->context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(data, static_cast<unsigned int>(CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return give(data, address);
    // Callers provide 32 bits for these (documented for the first in cuPointerSetAttribute).
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return give(data, is_synchronous(*found.active, buffer) ? 1u : 0u);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(data, 0u);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return give(data, false);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(data, true);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return give(data,
                  static_cast<unsigned long long>(
                      kOurNumbers | static_cast<std::uint64_t>(found.active->device) << kDeviceBits | buffer.number));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(data, static_cast<int>(found.active->device));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return give(data, static_cast<CUdeviceptr>(buffer.address.value));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return give(data, static_cast<std::size_t>(buffer.bytes));
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return give(data, static_cast<unsigned long long>(CU_MEM_HANDLE_TYPE_NONE));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return give(data, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return give(data, pool_of(buffer.address));
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_NOT_FOUND;
  }
}

// For a device whose memory is the driver's: at most the driver's free memory and the cached memory count as free.
CUresult memory_of_heap(DeviceHeap& heap, size_t* free, size_t* total) {
  if (const CUresult lost = lost_context_error(); lost != CUDA_SUCCESS) return lost;
  return guarded([&] {
    std::size_t device_free = 0, device_total = 0;
    const CUresult result = real<Function::cuMemGetInfo_v2>(&device_free, &device_total);
    if (result != CUDA_SUCCESS) return result;
    const EngineStatistics now = statistics_of(heap);
    const MemoryTold told = told_memory(Runtime::get().advertise(), device_total, now);
    if (free != nullptr) *free = std::min<Bytes>(told.free_bytes, device_free + now.free_mapped_bytes);
    if (total != nullptr) *total = told.total_bytes;
    return CUDA_SUCCESS;
  });
}

}  // namespace
}  // namespace thermocline

extern "C" {

CUresult CUDAAPI cuMemGetInfo_v2(size_t* free, size_t* total) {
  using namespace thermocline;
  const ActiveEngine* active = Runtime::get().in_current_context();
  if (active == nullptr) {
    DeviceHeap* const heap = Inside::now() ? nullptr : caching_heap_of_current_device();
    if (heap != nullptr) return memory_of_heap(*heap, free, total);
    return real<Function::cuMemGetInfo_v2>(free, total);
  }
  if (const CUresult lost = lost_context_error(); lost != CUDA_SUCCESS) return lost;
  return guarded([&] {
    const Inside inside;
    Bytes free_bytes = 0;
    Bytes total_bytes = 0;
    if (Runtime::get().advertise() == Advertise::kBudget) {
      active->engine->memory_info(&free_bytes, &total_bytes);
    } else {
      std::size_t device_free = 0, device_total = 0;
      const CUresult result = real<Function::cuMemGetInfo_v2>(&device_free, &device_total);
      if (result != CUDA_SUCCESS) return result;
      const MemoryTold told = told_memory(Runtime::get().advertise(), device_total, active->engine->statistics());
      free_bytes = told.free_bytes;
      total_bytes = told.total_bytes;
    }
    if (free != nullptr) *free = free_bytes;
    if (total != nullptr) *total = total_bytes;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
  using namespace thermocline;
  return guarded([&] {
    const Found found = find(dptr);
    if (found.owner == Owner::kDriver) return real<Function::cuMemGetAddressRange_v2>(pbase, psize, dptr);
    if (found.owner == Owner::kNobody) return CUDA_ERROR_NOT_FOUND;
    if (pbase != nullptr) *pbase = found.buffer.address.value;
    if (psize != nullptr) *psize = found.buffer.bytes;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  using namespace thermocline;
  return guarded([&] {
    const Found found = find(ptr);
    if (found.owner == Owner::kDriver) return real<Function::cuPointerGetAttribute>(data, attribute, ptr);
    if (found.owner == Owner::kNobody || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = thermocline::attribute(found, ptr, attribute, data);
    return result == CUDA_ERROR_NOT_FOUND ? real<Function::cuPointerGetAttribute>(data, attribute, ptr) : result;
  });
}

CUresult CUDAAPI cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
  using namespace thermocline;
  return guarded([&]() -> CUresult {
    const Found found = find(ptr);
    if (found.owner == Owner::kDriver) {
      // The attribute stays with the driver's allocation.
      keep_from_cache(ptr);
      return real<Function::cuPointerSetAttribute>(value, attribute, ptr);
    }
    if (found.owner == Owner::kNobody || value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
      return CUDA_ERROR_INVALID_VALUE;
    const bool on = *static_cast<const unsigned int*>(value) != 0;
    const auto set = [&] {
      set_synchronous(*found.active, found.buffer, on);
      return CUDA_SUCCESS;
    };
    // Programs set this when they are about to give the address to another device.
    return on ? keep(AccessList().word(ptr), "another device may use it", set) : set();
  });
}

CUresult CUDAAPI cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes, void** data,
                                        CUdeviceptr ptr) {
  using namespace thermocline;
  return guarded([&] {
    const Found found = find(ptr);
    const CUdeviceptr asked = found.owner == Owner::kNobody ? kNobodysAddress : ptr;
    // Attributes that are not known here keep the driver's answer, and so do addresses in the reservation that belong
    // to no buffer.
    const CUresult result = real<Function::cuPointerGetAttributes>(numAttributes, attributes, data, asked);
    if (found.owner != Owner::kProgram || attributes == nullptr || data == nullptr) return result;
    for (unsigned int i = 0; i < numAttributes; ++i) {
      if (data[i] != nullptr) static_cast<void>(attribute(found, ptr, attributes[i], data[i]));
    }
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
