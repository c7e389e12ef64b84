// SPDX-License-Identifier: Apache-2.0
// The driver's answers about addresses.
#include <cstdlib>

#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "pointers";
constexpr int kMapping = CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
#define POINTERS "Unified Addressing: cuPointerGetAttribute"
#define RANGES "Memory Management: cuMemGetAddressRange"

template <typename T>
T ask(Session& session, CUpointer_attribute attribute, CUdeviceptr at) {
  const Driver& cu = session.driver();
  T value = {};
  OK(cu.cuPointerGetAttribute(&value, attribute, at));
  return value;
}

CUdeviceptr address(const void* at) { return reinterpret_cast<CUdeviceptr>(at); }

RULE(device_memory_is_device_memory, "An allocation is device memory at its own address, not managed, on its device",
     POINTERS) {
  const CUdeviceptr at = session.allocate(4096) + 100;
  HOLDS(ask<unsigned>(session, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) == CU_MEMORYTYPE_DEVICE, "device memory");
  HOLDS(ask<CUdeviceptr>(session, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at) == at, "its own address");
  HOLDS(ask<unsigned>(session, CU_POINTER_ATTRIBUTE_IS_MANAGED, at) == 0, "not managed");
  HOLDS(ask<int>(session, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) == 0, "device 0");
}

RULE(device_memory_has_no_host_address, "Device memory has no address for the host", POINTERS) {
  void* host = nullptr;
  ANSWERS(cu.cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, session.allocate(4096)),
          CUDA_ERROR_INVALID_VALUE);
}

RULE(device_memory_tells_its_range, "An address inside an allocation gives its start and length", POINTERS,
     .open = "whether the length is the requested or the allocated one") {
  const CUdeviceptr at = session.allocate(12345);
  HOLDS(ask<CUdeviceptr>(session, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at + 999) == at, "the start");
  const auto bytes = ask<std::size_t>(session, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at + 999);
  session.note("12345 bytes: " + std::to_string(bytes));
  HOLDS(bytes >= 12345, "at least its bytes");
}

RULE(memory_tells_its_context, "An allocation returns the context that it was made in", POINTERS) {
  const CUdeviceptr in_first = session.allocate(4096);
  CUcontext first = nullptr, second = nullptr;
  OK(cu.cuCtxGetCurrent(&first));
  OK(cu.cuCtxCreate(&second, nullptr, 0, 0));
  const CUdeviceptr in_second = session.allocate(4096);
  HOLDS(ask<CUcontext>(session, CU_POINTER_ATTRIBUTE_CONTEXT, in_first) == first, "the first's");
  HOLDS(ask<CUcontext>(session, CU_POINTER_ATTRIBUTE_CONTEXT, in_second) == second, "the second's");
}

RULE(buffer_numbers_are_not_reused, "Allocations have numbers that no later one gets, not even at the same address",
     POINTERS) {
  const CUdeviceptr one = session.allocate(1 << 20);
  const auto first = ask<unsigned long long>(session, CU_POINTER_ATTRIBUTE_BUFFER_ID, one);
  OK(cu.cuMemFree(one));
  const CUdeviceptr two = session.allocate(1 << 20), three = session.allocate(1 << 20);
  const auto second = ask<unsigned long long>(session, CU_POINTER_ATTRIBUTE_BUFFER_ID, two);
  const auto third = ask<unsigned long long>(session, CU_POINTER_ATTRIBUTE_BUFFER_ID, three);
  HOLDS(first != second && second != third && first != third, "three numbers");
}

RULE(sync_memops_is_off, "Synchronous memory operations are off at first; the attribute is a whole unsigned number",
     "Unified Addressing: cuPointerGetAttribute, cuPointerSetAttribute") {
  unsigned found = ~0u;
  OK(cu.cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, session.allocate(4096)));
  HOLDS(found == 0, "off");
}

RULE(sync_memops_is_a_switch, "Synchronous memory operations can be switched on",
     "Unified Addressing: cuPointerSetAttribute") {
  const CUdeviceptr at = session.allocate(4096);
  const unsigned on = 1;
  OK(cu.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
  HOLDS(ask<unsigned>(session, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at) == 1, "on");
}

RULE(pageable_memory_is_unknown, "Memory that the driver never saw has no type", POINTERS) {
  void* const at = std::malloc(4096);
  unsigned type = 0;
  ANSWERS(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(at)), CUDA_ERROR_INVALID_VALUE);
}

RULE(several_attributes_never_fail,
     "For memory unknown to the driver, a query of several attributes returns no error and no type",
     "Unified Addressing: cuPointerGetAttributes; CUDA Runtime API: cudaPointerAttributes",
     .open = "whether its addresses are null or the given one, which the driver does not check") {
  void* const at = std::malloc(4096);
  unsigned type = 9;
  CUdeviceptr device = 9;
  void* host = &type;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                      CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* places[] = {&type, &device, &host};
  OK(cu.cuPointerGetAttributes(3, attributes, places, address(at)));
  const auto tells = [&](const char* of, CUdeviceptr told) {
    session.note(std::string(of) + (told == 0 ? " null" : told == address(at) ? " the same" : " another"));
    HOLDS(told == 0 || told == address(at), of);
  };
  session.note("type " + std::to_string(type));
  HOLDS(type == 0, "no type");
  tells("address for the device:", device);
  tells("address for the host:", address(host));
}

RULE(several_attributes_at_once, "A query of several attributes returns the same values as single queries",
     "Unified Addressing: cuPointerGetAttributes") {
  const CUdeviceptr at = session.allocate(4096);
  unsigned type = 0;
  CUdeviceptr device = 0, begin = 0;
  void* host = &type;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                      CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
  void* places[] = {&type, &device, &host, &begin};
  OK(cu.cuPointerGetAttributes(4, attributes, places, at + 8));
  HOLDS(type == CU_MEMORYTYPE_DEVICE && device == at + 8 && begin == at, "type, address, start");
  HOLDS(host == nullptr, "null for what it has not");
}

RULE(freed_memory_is_unknown, "A freed address has no type", POINTERS,
     .open = "a later allocation may have taken the address") {
  const CUdeviceptr at = session.allocate(std::size_t{64} << 20);
  OK(cu.cuMemFree(at));
  unsigned type = 0;
  ANSWERS(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at), CUDA_ERROR_INVALID_VALUE);
}

RULE(pinned_memory_is_host_memory, "Pinned memory is host memory with one address for both sides", POINTERS) {
  void* const at = session.pinned(4096);
  HOLDS(ask<unsigned>(session, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(at)) == CU_MEMORYTYPE_HOST, "host memory");
  HOLDS(ask<void*>(session, CU_POINTER_ATTRIBUTE_HOST_POINTER, address(at)) == at, "for the host");
  HOLDS(ask<CUdeviceptr>(session, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address(at)) == address(at), "for the device");
}

RULE(registered_memory_is_host_memory, "Registered memory is host memory until it is unregistered", POINTERS) {
  void* const at = std::aligned_alloc(4096, 8192);
  OK(cu.cuMemHostRegister(at, 8192, 0));
  HOLDS(ask<unsigned>(session, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(at)) == CU_MEMORYTYPE_HOST, "host memory");
  HOLDS(ask<void*>(session, CU_POINTER_ATTRIBUTE_HOST_POINTER, address(at)) == at, "at its address");
  OK(cu.cuMemHostUnregister(at));
  unsigned type = 0;
  ANSWERS(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(at)), CUDA_ERROR_INVALID_VALUE);
}

RULE(managed_memory_is_managed, "Managed memory says so, and has an address for the host", POINTERS,
     .needs = CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) {
  CUdeviceptr at = 0;
  OK(cu.cuMemAllocManaged(&at, 4096, CU_MEM_ATTACH_GLOBAL));
  HOLDS(ask<unsigned>(session, CU_POINTER_ATTRIBUTE_IS_MANAGED, at) != 0, "managed");
  HOLDS(ask<void*>(session, CU_POINTER_ATTRIBUTE_HOST_POINTER, at) == reinterpret_cast<void*>(at), "the same address");
}

RULE(mapped_memory_is_device_memory, "Mapped memory is device memory at its own address", POINTERS, .needs = kMapping) {
  const CUdeviceptr at = session.mapped(session.granule()) + 64;
  HOLDS(ask<unsigned>(session, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) == CU_MEMORYTYPE_DEVICE, "device memory");
  HOLDS(ask<CUdeviceptr>(session, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at) == at, "its own address");
  HOLDS(ask<bool>(session, CU_POINTER_ATTRIBUTE_MAPPED, at), "mapped");
}

RULE(range_of_a_mapping_is_its_reservation,
     "The range of a mapped address is the reservation that it lies in, not the mapping", POINTERS, .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.reserve(4 * bytes);
  session.map(at + bytes, bytes, session.create(bytes));
  session.grant(at + bytes, bytes);
  HOLDS(ask<CUdeviceptr>(session, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at + bytes + 5) == at,
        "it begins where the reservation does");
  HOLDS(ask<std::size_t>(session, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at + bytes + 5) == 4 * bytes, "and is as long");
}

RULE(reserved_address_is_not_mapped, "An address that is only reserved is not mapped", POINTERS,
     .open = "whether the query is answered or refused", .needs = kMapping) {
  bool mapped = true;
  const CUresult result =
      cu.cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, session.reserve(session.granule()));
  ANSWERS(result, CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE);
  HOLDS(result != CUDA_SUCCESS || !mapped, "not mapped");
}

RULE(unmapped_address_is_not_mapped, "An address whose mapping was removed is not mapped", POINTERS,
     .open = "whether the query is answered or refused", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.mapped(bytes);
  OK(cu.cuMemUnmap(at, bytes));
  bool mapped = true;
  const CUresult result = cu.cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, at);
  ANSWERS(result, CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE);
  HOLDS(result != CUDA_SUCCESS || !mapped, "not mapped");
}

RULE(attribute_needs_a_place, "A query without a pointer for the attribute is refused", POINTERS,
     .open = "which error") {
  FAILS(cu.cuPointerGetAttribute(nullptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, session.allocate(4096)));
}

RULE(address_range_of_an_allocation,
     "An address inside an allocation gives its start and size; either pointer may be null", RANGES) {
  const CUdeviceptr at = session.allocate(100000);
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  OK(cu.cuMemGetAddressRange(&begin, &bytes, at + 99999));
  HOLDS(begin == at && bytes == 100000, "start and size");
  begin = 0;
  bytes = 0;
  OK(cu.cuMemGetAddressRange(&begin, nullptr, at + 1));
  OK(cu.cuMemGetAddressRange(nullptr, &bytes, at + 1));
  HOLDS(begin == at && bytes == 100000, "each alone");
}

RULE(address_range_of_a_mapping, "An address inside a mapping gives the mapping's start and size",
     RANGES ", and the note at CU_POINTER_ATTRIBUTE_RANGE_SIZE", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.reserve(4 * bytes);
  session.map(at + bytes, 2 * bytes, session.create(2 * bytes));
  session.grant(at + bytes, 2 * bytes);
  CUdeviceptr begin = 0;
  std::size_t found = 0;
  OK(cu.cuMemGetAddressRange(&begin, &found, at + 2 * bytes + 7));
  HOLDS(begin == at + bytes && found == 2 * bytes, "start and size of what is mapped");
}

RULE(address_range_of_nothing, "A freed address has no range", RANGES, .open = "which error") {
  const CUdeviceptr at = session.allocate(std::size_t{64} << 20);
  OK(cu.cuMemFree(at));
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  ANSWERS(cu.cuMemGetAddressRange(&begin, &bytes, at), CUDA_ERROR_NOT_FOUND, CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace conformance
