// SPDX-License-Identifier: Apache-2.0
// Virtual memory management: addresses, physical handles, mappings, access. The program's own mappings of device memory
// are buffers; mappings of host memory are not, as pinned memory is not. Mappings inside a heap that somebody
// registered (see nvtx_memory.cc) are not buffers either: there the owner of the heap registers the buffers.
#include "simulator/cuda/memory/memory_kinds.h"
#include "simulator/cuda/memory/pool_cache.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

using namespace simulator;
using namespace simulator::cuda;

namespace {

bool is_on_host(const CUmemAllocationProp& properties) {
  return properties.location.type == CU_MEM_LOCATION_TYPE_HOST ||
         properties.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

// The machine has one NUMA node, number 0, and reports that it has none (device_attributes.cc).
CUresult check_host(Call& call, const CUmemAllocationProp& properties) {
  if (call.machine().fault_plan().no_host_mappings) return CUDA_ERROR_NOT_SUPPORTED;
  const bool numbered = properties.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  if (numbered && properties.location.id != 0) return CUDA_ERROR_INVALID_VALUE;
  if (properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE) return CUDA_SUCCESS;
  return numbered ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

CUresult check_properties(Call& call, const CUmemAllocationProp* properties) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (is_on_host(*properties)) return check_host(call, *properties);
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if ((properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  return call.has_device(properties->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult check_access(Call& call, const CUmemAccessDesc& access, bool all_on_host) {
  switch (access.location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      if (!call.has_device(access.location.id)) return CUDA_ERROR_INVALID_DEVICE;
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
      if (!all_on_host) return CUDA_ERROR_NOT_SUPPORTED;
      break;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      if (!all_on_host) return CUDA_ERROR_INVALID_VALUE;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  const bool known = access.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || access.flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
                     access.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// For map=waits.
CUresult wait_to_map(Call& call, const char* name, Address at, Bytes bytes) {
  return call.machine().driver().map_waits ? call.machine().wait_to_free(name, at, bytes, true) : CUDA_SUCCESS;
}

// The memory to map for handle `asked`: the handle's own, unless it has a mapping and switch alias says otherwise.
CUresult to_map(Call& call, Bytes bytes, PhysicalId asked, PhysicalId* physical) {
  *physical = asked;
  const Alias alias = call.machine().driver().alias;
  if (alias == Alias::kOn || !call.machine().physical_is_mapped(asked)) return CUDA_SUCCESS;
  if (alias == Alias::kOff) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = call.machine().create_physical(
      bytes, physical, is_on_host(call.state().physical.at(asked)) ? PhysicalPlace::kHost : PhysicalPlace::kDevice);
  if (result == CUDA_SUCCESS) call.state().physical[*physical] = call.state().physical.at(asked);
  return result;
}

bool is_whole(Machine& machine, Bytes bytes) { return bytes != 0 && bytes % machine.granularity() == 0; }

// Removes the buffers of mappings in [at, at + bytes).
void forget_mapped_buffers(Call& call, Address at, Bytes bytes) {
  auto& mapped = call.state().mapped_buffers;
  for (auto entry = mapped.lower_bound(at); entry != mapped.end() && entry->first < at + bytes;) {
    call.machine().unregister_buffer(entry->first);
    entry = mapped.erase(entry);
  }
}

// Properties live as long as the memory: cuMemRetainAllocationHandle returns a handle for a mapping.
void forget_properties(Call& call, const std::vector<PhysicalId>& ids) {
  for (const PhysicalId id : ids) {
    if (!call.machine().physical_exists(id)) call.state().physical.erase(id);
  }
}

}  // namespace

SIMULATED_API CUresult cuMemAddressReserve(CUdeviceptr* out, std::size_t bytes, std::size_t alignment, CUdeviceptr hint,
                                           unsigned long long flags) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || flags != 0 || !is_whole(call.machine(), bytes) || (alignment & (alignment - 1)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  Address at = 0;
  const CUresult result =
      call.machine().reserve(bytes, std::max<Bytes>(alignment, call.machine().granularity()), hint, &at);
  if (result == CUDA_SUCCESS) *out = at;
  return result;
}

// Neither this nor cuMemUnmap needs a context: their pages name no such error, and memMapIPCDrv of NVIDIA's
// cuda-samples calls them after cuCtxDestroy.
SIMULATED_API CUresult cuMemAddressFree(CUdeviceptr at, std::size_t bytes) {
  Call call(Needs::kSoundDriver);
  return call ? call.machine().release_addresses(at, bytes) : call.result();
}

SIMULATED_API CUresult cuMemGetAllocationGranularity(std::size_t* out, const CUmemAllocationProp* properties,
                                                     CUmemAllocationGranularity_flags option) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (out == nullptr || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_properties(call, properties); result != CUDA_SUCCESS) return result;
  *out = call.machine().granularity();
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuMemCreate(CUmemGenericAllocationHandle* out, std::size_t bytes,
                                   const CUmemAllocationProp* properties, unsigned long long flags) {
  Call call(Needs::kDriver);  // the properties name the device
  if (!call) return call.result();
  if (out == nullptr || flags != 0 || !is_whole(call.machine(), bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_properties(call, properties); result != CUDA_SUCCESS) return result;
  const PhysicalPlace place = is_on_host(*properties) ? PhysicalPlace::kHost : PhysicalPlace::kDevice;
  const DeviceId device = is_on_host(*properties) ? DeviceId{0} : static_cast<DeviceId>(properties->location.id);
  PhysicalId physical = 0;
  CUresult result = with_room(call, [&] { return call.machine().create_physical(bytes, &physical, place, device); });
  if (result != CUDA_SUCCESS) return result;
  if (properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    result = call.machine().share_physical(physical);
    if (result != CUDA_SUCCESS) {
      call.machine().release_physical(physical);
      return result;
    }
  }
  call.state().physical[physical] = *properties;
  *out = physical;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  const CUresult result = call.machine().release_physical(handle);
  forget_properties(call, {handle});
  return result;
}

SIMULATED_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* at) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto physical = call.machine().physical_at(reinterpret_cast<Address>(at));
  if (!physical) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = call.machine().retain_physical(*physical);
  if (result == CUDA_SUCCESS) *out = *physical;
  return result;
}

SIMULATED_API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                              CUmemGenericAllocationHandle handle) {
  Call call;
  if (!call) return call.result();
  const auto found = call.state().physical.find(handle);
  if (out == nullptr || found == call.state().physical.end() || call.machine().physical_bytes(handle) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  *out = found->second;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuMemMap(CUdeviceptr at, std::size_t bytes, std::size_t offset,
                                CUmemGenericAllocationHandle handle, unsigned long long flags) {
  Call call;
  if (!call) return call.result();
  if (flags != 0 || offset != 0 || !is_whole(call.machine(), bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult fault = wait_to_map(call, "cuMemMap", at, bytes); fault != CUDA_SUCCESS) return fault;
  PhysicalId physical = 0;
  CUresult result = to_map(call, bytes, handle, &physical);
  if (result != CUDA_SUCCESS) return result;
  result = call.machine().map(at, bytes, offset, physical);
  if (physical != handle) call.machine().release_physical(physical);
  if (result != CUDA_SUCCESS) return result;
  if (call.machine().is_heap(at) || call.machine().is_host_physical_at(at)) return CUDA_SUCCESS;
  if (call.machine().register_buffer(at, bytes, Fresh::kNo) == CUDA_SUCCESS) call.state().mapped_buffers[at] = bytes;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuMemUnmap(CUdeviceptr at, std::size_t bytes) {
  Call call(Needs::kSoundDriver);
  if (!call) return call.result();
  const std::vector<PhysicalId> mapped = call.machine().physical_in(at, bytes);
  if (call.machine().driver().unmap_one && mapped.size() > 1) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = call.machine().unmap(at, bytes);
  if (result == CUDA_SUCCESS) {
    forget_mapped_buffers(call, at, bytes);
    forget_properties(call, mapped);
  }
  return result;
}

SIMULATED_API CUresult cuMemSetAccess(CUdeviceptr at, std::size_t bytes, const CUmemAccessDesc* access,
                                      std::size_t count) {
  Call call;
  if (!call) return call.result();
  if (access == nullptr || count == 0 || !is_whole(call.machine(), bytes)) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<PhysicalId> mapped = call.machine().physical_in(at, bytes);
  if (call.machine().driver().access_one && mapped.size() > 1) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult fault = wait_to_map(call, "cuMemSetAccess", at, bytes); fault != CUDA_SUCCESS) return fault;
  const bool all_on_host = !mapped.empty() && std::all_of(mapped.begin(), mapped.end(), [&call](PhysicalId id) {
    return is_on_host(call.state().physical.at(id));
  });
  // The host may access all memory that a device may access: there is one address space here.
  std::array<std::optional<Access>, kMostDevices> wanted;
  for (std::size_t i = 0; i < count; ++i) {
    if (const CUresult result = check_access(call, access[i], all_on_host); result != CUDA_SUCCESS) return result;
    if (access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE)
      wanted[static_cast<std::size_t>(access[i].location.id)] = static_cast<Access>(access[i].flags);
  }
  for (DeviceId device = 0; device < kMostDevices; ++device) {
    if (!wanted[device]) continue;
    if (const CUresult result = call.machine().set_access(at, bytes, *wanted[device], device); result != CUDA_SUCCESS)
      return result;
  }
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr at) {
  Call call;
  if (!call) return call.result();
  if (flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (!call.has_device(location->id)) return CUDA_ERROR_INVALID_DEVICE;
  Address begin = 0;
  Bytes bytes = 0;
  if (!call.machine().mapping_at(at, &begin, &bytes)) return CUDA_ERROR_INVALID_VALUE;
  *flags = static_cast<unsigned long long>(call.machine().access_at(at, static_cast<DeviceId>(location->id)));
  return CUDA_SUCCESS;
}
