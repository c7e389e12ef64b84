// SPDX-License-Identifier: Apache-2.0
// Handles of host memory, mapped at addresses where device memory can also be mapped: the memory of an address can
// change between host and device.
#include <algorithm>
#include <string>

#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "mapping";
constexpr int kHostMapping = CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
constexpr int kNodeMapping = CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
#define CREATE "Virtual Memory Management: cuMemCreate"

CUmemAllocationProp on_host(CUmemLocationType type = CU_MEM_LOCATION_TYPE_HOST, int id = 0) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = type;
  properties.location.id = id;
  return properties;
}

std::size_t granule_of(Session& session, const CUmemAllocationProp& properties) {
  const Driver& cu = session.driver();
  std::size_t granule = 0;
  OK(cu.cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  return granule;
}

// Large enough for both kinds of memory.
std::size_t common_granule(Session& session) { return std::max(session.granule(), granule_of(session, on_host())); }

RULE(host_handle_ignores_the_number, "A handle of host memory without a particular node accepts any number", CREATE,
     .open = "whether its properties name the host or a node of it", .needs = kHostMapping) {
  const CUmemAllocationProp properties = on_host(CU_MEM_LOCATION_TYPE_HOST, 77);
  CUmemGenericAllocationHandle handle = 0;
  OK(cu.cuMemCreate(&handle, granule_of(session, properties), &properties, 0));
  CUmemAllocationProp told{};
  OK(cu.cuMemGetAllocationPropertiesFromHandle(&told, handle));
  session.note("location type " + std::to_string(told.location.type) + ", id " + std::to_string(told.location.id));
  HOLDS(told.location.type != CU_MEM_LOCATION_TYPE_DEVICE, "it does not say that it is on a device");
  OK(cu.cuMemRelease(handle));
}

RULE(host_handle_is_not_shared, "A handle of host memory cannot be exportable", CREATE, .needs = kHostMapping) {
  CUmemAllocationProp properties = on_host();
  const std::size_t bytes = granule_of(session, properties);
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle = 0;
  ANSWERS(cu.cuMemCreate(&handle, bytes, &properties, 0), CUDA_ERROR_INVALID_VALUE);
}

RULE(current_node_is_no_place, "Memory cannot be created on the thread's current node", CREATE, .needs = kNodeMapping) {
  const CUmemAllocationProp properties = on_host(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
  CUmemGenericAllocationHandle handle = 0;
  ANSWERS(cu.cuMemCreate(&handle, common_granule(session), &properties, 0), CUDA_ERROR_INVALID_VALUE);
}

RULE(node_gets_no_access_to_device_memory, "A host node cannot be given access to device memory",
     "Virtual Memory Management: cuMemSetAccess", .open = "which error", .needs = kNodeMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.reserve(bytes);
  session.map(at, bytes, session.create(bytes));
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  REFUSES(cu.cuMemSetAccess(at, bytes, &access, 1));
}

RULE(host_memory_is_worked_on, "Copies and kernels work on host memory that is mapped for the device",
     "Virtual Memory Management: cuMemMap, cuMemSetAccess", .needs = kHostMapping) {
  const CUmemAllocationProp properties = on_host();
  const std::size_t bytes = common_granule(session);
  CUmemGenericAllocationHandle handle = 0;
  OK(cu.cuMemCreate(&handle, bytes, &properties, 0));
  const CUdeviceptr at = session.reserve(bytes);
  OK(cu.cuMemMap(at, bytes, 0, handle, 0));
  session.grant(at, bytes);
  OK(cu.cuMemsetD32(at, 5, 1024));
  const CUstream in = session.stream();
  session.synchronize();
  session.add(at, 1024, 3, in);
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, 1024, 8), "every word has what was set and added");
  OK(cu.cuMemUnmap(at, bytes));
  OK(cu.cuMemRelease(handle));
}

RULE(address_changes_its_place,
     "An address can be mapped to device memory, then to host memory, and each keeps its contents",
     "Virtual Memory Management: cuMemMap, cuMemUnmap", .needs = kHostMapping) {
  const CUmemAllocationProp properties = on_host();
  const std::size_t bytes = common_granule(session);
  CUmemGenericAllocationHandle host = 0;
  OK(cu.cuMemCreate(&host, bytes, &properties, 0));
  const CUmemGenericAllocationHandle device = session.create(bytes);
  const CUdeviceptr at = session.reserve(bytes);
  const auto lead_to = [&](CUmemGenericAllocationHandle handle) {
    session.synchronize();
    OK(cu.cuMemMap(at, bytes, 0, handle, 0));
    session.grant(at, bytes);
  };
  const auto leave = [&] {
    session.synchronize();
    OK(cu.cuMemUnmap(at, bytes));
  };
  lead_to(device);
  OK(cu.cuMemsetD32(at, 1, bytes / 4));
  leave();
  lead_to(host);
  OK(cu.cuMemsetD32(at, 2, bytes / 4));
  leave();
  lead_to(device);
  HOLDS(session.holds(at, bytes / 4, 1), "the device's contents are back with its memory");
  leave();
  lead_to(host);
  HOLDS(session.holds(at, bytes / 4, 2), "and so are the host's");
  leave();
  OK(cu.cuMemRelease(host));
}

}  // namespace
}  // namespace conformance
