// SPDX-License-Identifier: Apache-2.0
#include "driver/driver.h"

#include <algorithm>
#include <vector>

#include "driver/check.h"
#include "driver/locks.h"
#include "driver/numa.h"

#include "driver/table.h"

// Every method begins with this: if the driver lacks the function, the method returns not_supported.
#define THERMOCLINE_NEED(function) \
  if (table_->function == nullptr) return Status::not_supported()

namespace thermocline {
namespace {

Status status_of(CUresult result) { return Status(static_cast<int>(result)); }

CUstream to_cu(StreamHandle stream) { return reinterpret_cast<CUstream>(static_cast<std::uintptr_t>(stream)); }
CUevent to_cu(EventHandle event) { return reinterpret_cast<CUevent>(static_cast<std::uintptr_t>(event)); }

CUmemAllocationProp page_properties(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

CUmemLocation host_location(int node) {
  CUmemLocation location{};
  location.type = node < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_HOST_NUMA;
  location.id = node < 0 ? 0 : node;
  return location;
}

CUmemAllocationProp host_page_properties(int node) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = host_location(node);
  return properties;
}

Status create(const DriverTable& table, Bytes bytes, const CUmemAllocationProp& properties, PageHandle* out) {
  CUmemGenericAllocationHandle handle = 0;
  const CUresult r = table.cuMemCreate(&handle, bytes, &properties, 0);
  if (r == CUDA_SUCCESS) *out = PageHandle{handle};
  return status_of(r);
}

bool has_attribute(const DriverTable& table, CUdevice_attribute attribute, CUdevice device) {
  int value = 0;
  // A driver that is older than the attribute returns an error: the device does not support the feature.
  return table.cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS && value != 0;
}

// The driver reports the node since CUDA 12.2; for older drivers it is read from sysfs.
int host_node_of(const DriverTable& table, CUdevice device) {
  int node = -1;
  if (table.cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) == CUDA_SUCCESS && node >= 0) {
    return node;
  }
  char bus_id[32] = {};
  const bool named =
      table.cuDeviceGetPCIBusId != nullptr && table.cuDeviceGetPCIBusId(bus_id, sizeof bus_id, device) == CUDA_SUCCESS;
  return named ? node_of_pci_device(bus_id) : -1;
}

// Whether the device can map host memory, and from which node: the given node if possible (CUDA 12.2), else wherever
// the driver allocates it.
bool can_map_host(const DriverTable& table, CUdevice device, Bytes page_bytes, int near, int* node) {
  const bool on_nodes = has_attribute(table, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
  const bool anywhere = has_attribute(table, CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
  if (!on_nodes && !anywhere) return false;
  *node = on_nodes ? (near < 0 ? 0 : near) : -1;
  const CUmemAllocationProp properties = host_page_properties(*node);
  std::size_t granularity = 0;
  const CUresult r = table.cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  return r == CUDA_SUCCESS && granularity != 0 && page_bytes % granularity == 0;
}

}  // namespace

Status Driver::facts(DeviceFacts* out) const {
  THERMOCLINE_NEED(cuCtxGetDevice);
  THERMOCLINE_NEED(cuDeviceTotalMem);
  THERMOCLINE_NEED(cuDeviceGetAttribute);
  CUdevice device = 0;
  std::size_t total = 0;
  if (const CUresult r = table_->cuCtxGetDevice(&device); r != CUDA_SUCCESS) return status_of(r);
  if (const CUresult r = table_->cuDeviceTotalMem(&total, device); r != CUDA_SUCCESS) return status_of(r);
  DeviceFacts facts;
  facts.device = device;
  facts.total_memory = total;
  facts.has_virtual_memory = table_->cuMemAddressReserve != nullptr && table_->cuMemAddressFree != nullptr &&
                             table_->cuMemCreate != nullptr && table_->cuMemRelease != nullptr &&
                             table_->cuMemMap != nullptr && table_->cuMemSetAccess != nullptr &&
                             table_->cuMemUnmap != nullptr && table_->cuMemGetAllocationGranularity != nullptr &&
                             has_attribute(*table_, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
  if (facts.has_virtual_memory) {
    const CUmemAllocationProp properties = page_properties(device);
    std::size_t granularity = 0;
    const CUresult r =
        table_->cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    if (r != CUDA_SUCCESS) return status_of(r);
    facts.page_bytes = granularity;
  }
  facts.host_node = host_node_of(*table_, device);
  facts.can_map_host = facts.has_virtual_memory &&
                       can_map_host(*table_, device, facts.page_bytes, facts.host_node, &facts.host_map_node);
  *out = facts;
  return Status();
}

Status Driver::memory_info(Bytes* free, Bytes* total) const {
  THERMOCLINE_NEED(cuMemGetInfo);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  const CUresult r = table_->cuMemGetInfo(&free_bytes, &total_bytes);
  if (r == CUDA_SUCCESS) {
    *free = free_bytes;
    *total = total_bytes;
  }
  return status_of(r);
}

Status Driver::reserve(Bytes bytes, Bytes alignment, DeviceAddress* out) const {
  THERMOCLINE_NEED(cuMemAddressReserve);
  CUdeviceptr address = 0;
  const CUresult r = table_->cuMemAddressReserve(&address, bytes, alignment, 0, 0);
  if (r == CUDA_SUCCESS) *out = DeviceAddress{address};
  return status_of(r);
}

Status Driver::release(DeviceAddress at, Bytes bytes) const {
  THERMOCLINE_NEED(cuMemAddressFree);
  return status_of(table_->cuMemAddressFree(at.value, bytes));
}

Status Driver::create_page(Bytes bytes, int device, PageHandle* out) const {
  THERMOCLINE_NEED(cuMemCreate);
  return create(*table_, bytes, page_properties(device), out);
}

Status Driver::create_host_page(Bytes bytes, int node, PageHandle* out) const {
  THERMOCLINE_NEED(cuMemCreate);
  return create(*table_, bytes, host_page_properties(node), out);
}

Status Driver::destroy_page(PageHandle page) const {
  THERMOCLINE_NEED(cuMemRelease);
  return status_of(table_->cuMemRelease(static_cast<CUmemGenericAllocationHandle>(page)));
}

Status Driver::map(DeviceAddress at, Bytes bytes, PageHandle page) const {
  THERMOCLINE_NEED(cuMemMap);
  about_to_map("cuMemMap");
  return status_of(table_->cuMemMap(at.value, bytes, 0, static_cast<CUmemGenericAllocationHandle>(page), 0));
}

Status Driver::give_access(DeviceAddress at, Bytes bytes, const void* access, std::size_t count) const {
  about_to_map("cuMemSetAccess");
  const auto* const descriptions = static_cast<const CUmemAccessDesc*>(access);
  const Bytes step = steps_.access == 0 ? bytes : steps_.access;
  for (Bytes done = 0; done < bytes; done += step) {
    const Bytes part = std::min(step, bytes - done);
    if (const CUresult r = table_->cuMemSetAccess(at.value + done, part, descriptions, count); r != CUDA_SUCCESS) {
      return status_of(r);
    }
  }
  return Status();
}

Status Driver::change_access(DeviceAddress at, Bytes bytes, int device, unsigned flags) const {
  THERMOCLINE_NEED(cuMemSetAccess);
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = static_cast<CUmemAccess_flags>(flags);
  return give_access(at, bytes, &access, 1);
}

Status Driver::set_access(DeviceAddress at, Bytes bytes, int device) const {
  return change_access(at, bytes, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

Status Driver::set_access(DeviceAddress at, Bytes bytes, std::span<const int> devices) const {
  if (devices.size() == 1) return set_access(at, bytes, devices.front());
  THERMOCLINE_NEED(cuMemSetAccess);
  std::vector<CUmemAccessDesc> access(devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[i].location.id = devices[i];
    access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  return give_access(at, bytes, access.data(), access.size());
}

Status Driver::set_shared_access(DeviceAddress at, Bytes bytes, int device, int node) const {
  THERMOCLINE_NEED(cuMemSetAccess);
  CUmemAccessDesc access[2] = {};
  access[0].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access[0].location.id = device;
  access[1].location = host_location(node);
  for (CUmemAccessDesc& one : access) one.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return give_access(at, bytes, access, 2);
}

Status Driver::revoke_access(DeviceAddress at, Bytes bytes, int device) const {
  return change_access(at, bytes, device, CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

// All or nothing, unless the context is lost: then nothing accesses the memory any more. Earlier steps cannot be
// undone, so a later step that fails is repeated.
Status Driver::unmap(DeviceAddress at, Bytes bytes) const {
  THERMOCLINE_NEED(cuMemUnmap);
  about_to_map("cuMemUnmap");
  constexpr int kAttempts = 4;
  const Bytes step = steps_.unmap == 0 ? bytes : steps_.unmap;
  for (Bytes done = 0; done < bytes; done += step) {
    CUresult r = CUDA_ERROR_UNKNOWN;
    for (int attempt = 0; attempt < kAttempts && r != CUDA_SUCCESS && (attempt == 0 || done != 0); ++attempt) {
      r = table_->cuMemUnmap(at.value + done, std::min(step, bytes - done));
    }
    THERMOCLINE_CHECK(r == CUDA_SUCCESS || done == 0 || status_of(r).loses_the_context(),
                      "All steps of an unmap succeed.");
    if (r != CUDA_SUCCESS) return status_of(r);
  }
  return Status();
}

Status Driver::copy_to_host(void* to, DeviceAddress from, Bytes bytes, StreamHandle stream) const {
  THERMOCLINE_NEED(cuMemcpyDtoHAsync);
  return status_of(table_->cuMemcpyDtoHAsync(to, from.value, bytes, to_cu(stream)));
}

Status Driver::copy_to_device(DeviceAddress to, const void* from, Bytes bytes, StreamHandle stream) const {
  THERMOCLINE_NEED(cuMemcpyHtoDAsync);
  return status_of(table_->cuMemcpyHtoDAsync(to.value, from, bytes, to_cu(stream)));
}

Status Driver::copy_on_device(DeviceAddress to, DeviceAddress from, Bytes bytes, StreamHandle stream) const {
  THERMOCLINE_NEED(cuMemcpyDtoDAsync);
  return status_of(table_->cuMemcpyDtoDAsync(to.value, from.value, bytes, to_cu(stream)));
}

Status Driver::create_stream(StreamHandle* out) const {
  THERMOCLINE_NEED(cuStreamCreate);
  CUstream stream = nullptr;
  const CUresult r = table_->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (r == CUDA_SUCCESS) *out = StreamHandle{reinterpret_cast<std::uintptr_t>(stream)};
  return status_of(r);
}

Status Driver::destroy_stream(StreamHandle stream) const {
  THERMOCLINE_NEED(cuStreamDestroy);
  return status_of(table_->cuStreamDestroy(to_cu(stream)));
}

Status Driver::synchronize_stream(StreamHandle stream) const {
  THERMOCLINE_NEED(cuStreamSynchronize);
  about_to_wait("cuStreamSynchronize");
  return status_of(table_->cuStreamSynchronize(to_cu(stream)));
}

Status Driver::synchronize_context() const {
  THERMOCLINE_NEED(cuCtxSynchronize);
  about_to_wait("cuCtxSynchronize");
  return status_of(table_->cuCtxSynchronize());
}

bool Driver::is_capturing(StreamHandle stream) const {
  if (table_->cuStreamIsCapturing == nullptr) return false;
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult r = table_->cuStreamIsCapturing(to_cu(stream), &capture);
  // The legacy stream returns this error while another stream captures and the call would become part of that capture.
  if (r == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;
  return r == CUDA_SUCCESS && capture != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool Driver::is_blocking(StreamHandle stream) const {
  unsigned flags = 0;
  if (table_->cuStreamGetFlags == nullptr || table_->cuStreamGetFlags(to_cu(stream), &flags) != CUDA_SUCCESS)
    return true;
  return (flags & CU_STREAM_NON_BLOCKING) == 0;
}

Status Driver::exchange_capture_mode(CaptureMode* mode) const {
  THERMOCLINE_NEED(cuThreadExchangeStreamCaptureMode);
  auto cu_mode = static_cast<CUstreamCaptureMode>(*mode);
  const CUresult r = table_->cuThreadExchangeStreamCaptureMode(&cu_mode);
  if (r == CUDA_SUCCESS) *mode = static_cast<CaptureMode>(cu_mode);
  return status_of(r);
}

Status Driver::create_event(bool timed, EventHandle* out) const {
  THERMOCLINE_NEED(cuEventCreate);
  CUevent event = nullptr;
  const CUresult r = table_->cuEventCreate(&event, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
  if (r == CUDA_SUCCESS) *out = EventHandle{reinterpret_cast<std::uintptr_t>(event)};
  return status_of(r);
}

Status Driver::destroy_event(EventHandle event) const {
  THERMOCLINE_NEED(cuEventDestroy);
  return status_of(table_->cuEventDestroy(to_cu(event)));
}

Status Driver::record(EventHandle event, StreamHandle stream) const {
  THERMOCLINE_NEED(cuEventRecord);
  return status_of(table_->cuEventRecord(to_cu(event), to_cu(stream)));
}

Status Driver::wait(StreamHandle stream, EventHandle event) const {
  THERMOCLINE_NEED(cuStreamWaitEvent);
  return status_of(table_->cuStreamWaitEvent(to_cu(stream), to_cu(event), 0));
}

Status Driver::wait_for_value(StreamHandle stream, const void* word, std::uint32_t value) const {
  THERMOCLINE_NEED(cuStreamWaitValue32);
  return status_of(
      table_->cuStreamWaitValue32(to_cu(stream), reinterpret_cast<CUdeviceptr>(word), value, CU_STREAM_WAIT_VALUE_EQ));
}

Status Driver::query(EventHandle event) const {
  THERMOCLINE_NEED(cuEventQuery);
  return status_of(table_->cuEventQuery(to_cu(event)));
}

Status Driver::synchronize(EventHandle event) const {
  THERMOCLINE_NEED(cuEventSynchronize);
  about_to_wait("cuEventSynchronize");
  return status_of(table_->cuEventSynchronize(to_cu(event)));
}

Status Driver::elapsed_ms(EventHandle begin, EventHandle end, float* out) const {
  THERMOCLINE_NEED(cuEventElapsedTime);
  return status_of(table_->cuEventElapsedTime(out, to_cu(begin), to_cu(end)));
}

Status Driver::allocate_host(Bytes bytes, void** out) const {
  THERMOCLINE_NEED(cuMemHostAlloc);
  return status_of(table_->cuMemHostAlloc(out, bytes, CU_MEMHOSTALLOC_PORTABLE));
}

Status Driver::free_host(void* at) const {
  THERMOCLINE_NEED(cuMemFreeHost);
  // NVIDIA's documentation does not say so, but drivers synchronize in cuMemFreeHost as they do in cuMemFree.
  about_to_wait("cuMemFreeHost");
  return status_of(table_->cuMemFreeHost(at));
}

Status Driver::load_module(const char* text, ModuleHandle* out) const {
  THERMOCLINE_NEED(cuModuleLoadData);
  about_to_wait("cuModuleLoadData");
  CUmodule module = nullptr;
  const CUresult r = table_->cuModuleLoadData(&module, text);
  if (r == CUDA_SUCCESS) *out = ModuleHandle{reinterpret_cast<std::uintptr_t>(module)};
  return status_of(r);
}

Status Driver::unload_module(ModuleHandle module) const {
  THERMOCLINE_NEED(cuModuleUnload);
  about_to_wait("cuModuleUnload");
  return status_of(table_->cuModuleUnload(reinterpret_cast<CUmodule>(static_cast<std::uintptr_t>(module))));
}

Status Driver::find_function(ModuleHandle module, const char* name, FunctionHandle* out) const {
  THERMOCLINE_NEED(cuModuleGetFunction);
  CUfunction function = nullptr;
  const CUresult r =
      table_->cuModuleGetFunction(&function, reinterpret_cast<CUmodule>(static_cast<std::uintptr_t>(module)), name);
  if (r == CUDA_SUCCESS) *out = FunctionHandle{reinterpret_cast<std::uintptr_t>(function)};
  return status_of(r);
}

Status Driver::launch(FunctionHandle function, unsigned blocks, unsigned threads, void** parameters,
                      StreamHandle stream) const {
  THERMOCLINE_NEED(cuLaunchKernel);
  return status_of(table_->cuLaunchKernel(reinterpret_cast<CUfunction>(static_cast<std::uintptr_t>(function)), blocks,
                                          1, 1, threads, 1, 1, 0, to_cu(stream), parameters, nullptr));
}

}  // namespace thermocline
