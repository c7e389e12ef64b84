// SPDX-License-Identifier: Apache-2.0
// The devices: their names, their memory, their bus ids. All have the same profile.
#include "simulator/cuda/call.h"

#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "simulator/cuda/context/device_attributes.h"

using simulator::cuda::Call;
using simulator::cuda::Needs;

namespace {

// Each device has a bus of its own, numbered from 1.
constexpr char kBusId[] = "0000:01:00.0";

std::string bus_id(CUdevice device) {
  std::string id = kBusId;
  id[sizeof "0000:0" - 1] = static_cast<char>('1' + device);
  return id;
}

// The calls here need no context.
CUresult check(Call& call, CUdevice device) {
  if (!call) return call.result();
  return call.has_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace

SIMULATED_API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, ordinal); result != CUDA_SUCCESS) return result;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDeviceGetCount(int* count) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = call.machine().devices();
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, static_cast<std::size_t>(length), "%s (simulated)", call.machine().profile().title);
  return CUDA_SUCCESS;
}

// Derived from the profile's name and the ordinal: the same for the same device every time, and different for other
// profiles.
SIMULATED_API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memset(uuid, 0, sizeof *uuid);
  const char* name = call.machine().profile().name;
  std::memcpy(uuid->bytes, name, strnlen(name, sizeof uuid->bytes - 1));
  uuid->bytes[sizeof uuid->bytes - 1] = static_cast<char>(device);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

SIMULATED_API CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice device) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = call.machine().capacity();
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  if (value == nullptr || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *value = simulator::cuda::device_attribute(call.machine().profile(), attribute);
  if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) *value += device;
  const simulator::FaultPlan& plan = call.machine().fault_plan();
  const bool host_mappings = attribute == CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ||
                             attribute == CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
  if (((plan.no_virtual_memory || plan.no_host_mappings) && host_mappings) ||
      (plan.no_virtual_memory && attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) ||
      (plan.no_memory_pools && attribute == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)) {
    *value = 0;
  }
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *major = call.machine().profile().compute_capability.value / 10;
  *minor = call.machine().profile().compute_capability.value % 10;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  if (id == nullptr || length < static_cast<int>(sizeof kBusId)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(id, bus_id(device).c_str(), sizeof kBusId);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (device == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // The domain and the function may be omitted.
  const std::string_view given = id;
  for (CUdevice one = 0; one < call.machine().devices(); ++one) {
    const std::string whole = bus_id(one);
    if (given != whole && given != whole.substr(5) && given != whole.substr(5, 5)) continue;
    *device = one;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

SIMULATED_API CUresult cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType, CUdevice device) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  if (supported == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *supported = 0;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDeviceGetTexture1DLinearMaxWidth(std::size_t* width, CUarray_format, unsigned channels,
                                                          CUdevice device) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  if (width == nullptr || channels == 0) return CUDA_ERROR_INVALID_VALUE;
  *width = std::size_t{1} << 28;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice device) {
  Call call(Needs::kDriver);
  if (const CUresult result = check(call, device); result != CUDA_SUCCESS) return result;
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto get = [&](CUdevice_attribute attribute) {
    return simulator::cuda::device_attribute(call.machine().profile(), attribute);
  };
  *properties = {.maxThreadsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
                 .maxThreadsDim = {get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X), get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
                                   get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)},
                 .maxGridSize = {get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
                                 get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)},
                 .sharedMemPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
                 .totalConstantMemory = get(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
                 .SIMDWidth = get(CU_DEVICE_ATTRIBUTE_WARP_SIZE),
                 .memPitch = get(CU_DEVICE_ATTRIBUTE_MAX_PITCH),
                 .regsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
                 .clockRate = get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
                 .textureAlign = get(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT)};
  return CUDA_SUCCESS;
}
