// SPDX-License-Identifier: Apache-2.0
// Mapping handles at reserved addresses, access rights, and unmapping.
#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "mapping";
constexpr int kMapping = CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
constexpr auto kReadWrite = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

RULE(map_offset_is_zero, "A mapping begins at the start of its handle; another offset is refused",
     "Virtual Memory Management: cuMemMap", .open = "whether it is called invalid or not supported",
     .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUmemGenericAllocationHandle handle = session.create(2 * bytes);
  const CUdeviceptr at = session.reserve(2 * bytes);
  ANSWERS(cu.cuMemMap(at, bytes, bytes, handle, 0), CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED);
}

RULE(map_flags_are_zero, "Flags other than 0 are refused", "Virtual Memory Management: cuMemMap", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  ANSWERS(cu.cuMemMap(session.reserve(bytes), bytes, 0, session.create(bytes), 1), CUDA_ERROR_INVALID_VALUE);
}

RULE(map_needs_a_reservation, "Only reserved addresses can be mapped", "Virtual Memory Management: cuMemMap",
     .open = "which error", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUmemGenericAllocationHandle handle = session.create(bytes);
  const CUdeviceptr at = session.reserve(bytes);
  OK(cu.cuMemAddressFree(at, bytes));
  FAILS(cu.cuMemMap(at, bytes, 0, handle, 0));
}

RULE(map_address_is_aligned, "A mapping begins at a multiple of the granularity", "Virtual Memory Management: cuMemMap",
     .needs = kMapping) {
  const std::size_t bytes = session.granule();
  ANSWERS(cu.cuMemMap(session.reserve(2 * bytes) + 4096, bytes, 0, session.create(bytes), 0), CUDA_ERROR_INVALID_VALUE);
}

RULE(map_size_is_aligned, "A mapping's size is a multiple of the granularity", "Virtual Memory Management: cuMemMap",
     .open = "which error", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  REFUSES(cu.cuMemMap(session.reserve(bytes), bytes / 2, 0, session.create(bytes), 0));
}

RULE(map_is_within_handle, "A mapping is no larger than its handle", "Virtual Memory Management: cuMemMap",
     .open = "which error", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  REFUSES(cu.cuMemMap(session.reserve(2 * bytes), 2 * bytes, 0, session.create(bytes), 0));
}

RULE(map_is_within_reservation,
     "A mapping that reaches past the end of the reservation is refused, unless the driver has reserved what follows",
     "Virtual Memory Management: cuMemMap", .open = "whether it is refused, and which error", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.reserve(2 * bytes);
  OK(cu.cuMemAddressFree(at, 2 * bytes));
  CUdeviceptr again = 0;
  OK(cu.cuMemAddressReserve(&again, bytes, 0, at, 0));
  const CUmemGenericAllocationHandle handle = session.create(2 * bytes);
  if (!MAY_FAIL(cu.cuMemMap(again, 2 * bytes, 0, handle, 0))) OK(cu.cuMemUnmap(again, 2 * bytes));
  OK(cu.cuMemRelease(handle));
  OK(cu.cuMemAddressFree(again, bytes));
}

RULE(map_over_a_mapping_fails, "Mapped addresses cannot be mapped again before they are unmapped",
     "Virtual Memory Management: cuMemMap", .open = "which error", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.mapped(bytes);
  session.write(at, {11});
  FAILS(cu.cuMemMap(at, bytes, 0, session.create(bytes), 0));
  HOLDS(session.holds(at, 1, 11), "the first mapping is as it was");
}

RULE(map_starts_without_access, "A new mapping has no access until cuMemSetAccess gives it",
     "Virtual Memory Management: cuMemUnmap, cuMemSetAccess", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.reserve(bytes);
  session.map(at, bytes, session.create(bytes));
  HOLDS(session.access_of(at) == CU_MEM_ACCESS_FLAGS_PROT_NONE, "no access after cuMemMap");
  session.grant(at, bytes);
  HOLDS(session.access_of(at) == kReadWrite, "reading and writing after cuMemSetAccess");
}

RULE(access_ends_with_mapping,
     "Access belongs to the mapping, not to the address: after unmapping and mapping there is none",
     "Virtual Memory Management: cuMemUnmap", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.mapped(bytes);
  OK(cu.cuMemUnmap(at, bytes));
  session.map(at, bytes, session.create(bytes));
  HOLDS(session.access_of(at) == CU_MEM_ACCESS_FLAGS_PROT_NONE, "the new mapping has no access");
}

RULE(copy_needs_access, "A copy into a mapping without access fails", "Virtual Memory Management: cuMemMap",
     .open = "which error, and whether the copy or the next synchronization returns it", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.reserve(bytes);
  session.map(at, bytes, session.create(bytes));
  const std::uint32_t word = 1;
  CUresult result = cu.cuMemcpyHtoD(at, &word, sizeof word);
  if (result == CUDA_SUCCESS) result = cu.cuCtxSynchronize();
  FAILS(result);
}

RULE(set_access_needs_a_mapping, "Access cannot be given to addresses that are reserved and not mapped",
     "Virtual Memory Management: cuMemSetAccess", .open = "which error", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  FAILS(session.set_access(session.reserve(bytes), bytes, kReadWrite));
}

RULE(set_access_needs_whole_range_mapped, "Access cannot be given to a range of which a part is not mapped",
     "Virtual Memory Management: cuMemSetAccess", .open = "which error", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.reserve(2 * bytes);
  session.map(at, bytes, session.create(bytes));
  FAILS(session.set_access(at, 2 * bytes, kReadWrite));
}

RULE(set_access_over_neighbours, "One call gives access to several adjacent mappings",
     "Virtual Memory Management: cuMemSetAccess", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.reserve(3 * bytes);
  for (std::size_t i = 0; i < 3; ++i) session.map(at + i * bytes, bytes, session.create(bytes));
  session.grant(at, 3 * bytes);
  std::vector<std::uint32_t> across(4);
  for (std::uint32_t i = 0; i < 4; ++i) across[i] = 90 + i;
  session.write(at + bytes - 8, across);
  HOLDS(session.read(at + bytes - 8, 4) == across, "a copy across the border arrives");
}

RULE(set_access_of_a_part, "Access to a part of one mapping is given or refused, and if refused changes nothing",
     "Virtual Memory Management: cuMemSetAccess", .open = "which; the page requires ranges of whole allocations",
     .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.reserve(2 * bytes);
  session.map(at, 2 * bytes, session.create(2 * bytes));
  const CUresult result = session.set_access(at, bytes, kReadWrite);
  ANSWERS(result, CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE);
  if (result != CUDA_SUCCESS) HOLDS(session.access_of(at) == CU_MEM_ACCESS_FLAGS_PROT_NONE, "still no access");
}

RULE(set_access_needs_a_device_that_exists, "Access for a device that does not exist is refused",
     "Virtual Memory Management: cuMemSetAccess", .open = "whether the device or the value is called invalid",
     .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.mapped(bytes);
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = 1000;
  access.flags = kReadWrite;
  ANSWERS(cu.cuMemSetAccess(at, bytes, &access, 1), CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_VALUE);
}

RULE(unmap_of_a_part_fails, "A part of a mapping cannot be unmapped; the mapping stays whole",
     "Virtual Memory Management: cuMemUnmap", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.mapped(2 * bytes);
  session.write(at, {21});
  session.write(at + bytes, {22});
  ANSWERS(cu.cuMemUnmap(at, bytes), CUDA_ERROR_INVALID_VALUE);
  ANSWERS(cu.cuMemUnmap(at + bytes, bytes), CUDA_ERROR_INVALID_VALUE);
  HOLDS(session.holds(at, 1, 21) && session.holds(at + bytes, 1, 22), "both halves are there");
}

RULE(unmap_of_nothing_changes_nothing, "Addresses that are reserved and not mapped can be mapped after an unmap call",
     "Virtual Memory Management: cuMemUnmap", .open = "whether that call fails", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.reserve(bytes);
  MAY_FAIL(cu.cuMemUnmap(at, bytes));
  session.map(at, bytes, session.create(bytes));
  session.grant(at, bytes);
  session.write(at, {23});
  HOLDS(session.holds(at, 1, 23), "the memory that is mapped then");
}

RULE(unmap_of_neighbours, "One call unmaps several adjacent whole mappings", "Virtual Memory Management: cuMemUnmap",
     .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.reserve(2 * bytes);
  for (std::size_t i = 0; i < 2; ++i) session.map(at + i * bytes, bytes, session.create(bytes));
  session.grant(at, 2 * bytes);
  OK(cu.cuMemUnmap(at, 2 * bytes));
  OK(cu.cuMemAddressFree(at, 2 * bytes));
}

RULE(unmapped_addresses_map_again, "Unmapped addresses are a reservation again and can be mapped",
     "Virtual Memory Management: cuMemUnmap", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.mapped(bytes);
  for (std::uint32_t round = 0; round < 8; ++round) {
    OK(cu.cuMemUnmap(at, bytes));
    session.map(at, bytes, session.create(bytes));
    session.grant(at, bytes);
    session.write(at, {round});
    HOLDS(session.holds(at, 1, round), "the new mapping holds what is written");
  }
}

RULE(handle_keeps_contents, "Memory belongs to the handle: mapped elsewhere it contains what was written before",
     "Virtual Memory Management: cuMemCreate, cuMemRelease", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUmemGenericAllocationHandle handle = session.create(bytes);
  const CUdeviceptr first = session.reserve(bytes), second = session.reserve(bytes);
  session.map(first, bytes, handle);
  session.grant(first, bytes);
  OK(cu.cuMemsetD32(first, 0xabcd, bytes / 4));
  session.synchronize();
  OK(cu.cuMemUnmap(first, bytes));
  session.map(second, bytes, handle);
  session.grant(second, bytes);
  HOLDS(session.holds(second, bytes / 4, 0xabcd), "every word moved with the handle");
}

RULE(mapping_outlives_handle, "A handle may be released while it is mapped: the mapping keeps the memory",
     "Virtual Memory Management: cuMemRelease", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUmemGenericAllocationHandle handle = session.create(bytes);
  const CUdeviceptr at = session.reserve(bytes);
  session.map(at, bytes, handle);
  OK(cu.cuMemRelease(handle));
  session.grant(at, bytes);
  session.write(at, {31});
  for (int i = 0; i < 4; ++i) session.mapped(bytes);
  HOLDS(session.holds(at, 1, 31), "nothing else got the memory");
}

RULE(retain_gives_the_same_handle, "Any address of a mapping gives the handle that it was mapped with",
     "Virtual Memory Management: cuMemRetainAllocationHandle", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUmemGenericAllocationHandle handle = session.create(bytes);
  const CUdeviceptr at = session.reserve(bytes);
  session.map(at, bytes, handle);
  session.grant(at, bytes);
  CUmemGenericAllocationHandle found = 0;
  OK(cu.cuMemRetainAllocationHandle(&found, reinterpret_cast<void*>(at + bytes / 2)));
  HOLDS(found == handle, "the same value");
  OK(cu.cuMemRelease(handle));
  OK(cu.cuMemRelease(found));
}

RULE(retain_needs_a_mapping, "An address that is not mapped gives no handle",
     "Virtual Memory Management: cuMemRetainAllocationHandle", .open = "which error", .needs = kMapping) {
  CUmemGenericAllocationHandle found = 0;
  FAILS(cu.cuMemRetainAllocationHandle(&found, reinterpret_cast<void*>(session.reserve(session.granule()))));
}

RULE(retained_handle_is_whole,
     "A handle that was released, and retained by an address of its mapping, returns its properties and can be mapped",
     "Virtual Memory Management: cuMemRetainAllocationHandle", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUmemGenericAllocationHandle handle = session.create(bytes);
  const CUdeviceptr at = session.reserve(2 * bytes);
  session.map(at, bytes, handle);
  OK(cu.cuMemRelease(handle));
  CUmemGenericAllocationHandle found = 0;
  OK(cu.cuMemRetainAllocationHandle(&found, reinterpret_cast<void*>(at)));
  CUmemAllocationProp properties = {};
  OK(cu.cuMemGetAllocationPropertiesFromHandle(&properties, found));
  HOLDS(properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE, "they are what it was created with");
  session.map(at + bytes, bytes, found);
}

RULE(kernel_at_unmapped_address_faults,
     "A kernel that accesses a reserved address without memory faults, and every later call returns that error",
     "Data types used by CUDA driver: CUDA_ERROR_ILLEGAL_ADDRESS", .needs = kMapping) {
  const CUdeviceptr at = session.reserve(session.granule());
  session.function("conformance_add");
  CUdeviceptr kept = 0, freed = 0, more = 0;
  OK(cu.cuMemAlloc(&kept, 4096));
  OK(cu.cuMemAlloc(&freed, 4096));
  OK(cu.cuMemFree(freed));
  session.add(at, 1, 1, nullptr);
  ANSWERS(cu.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  std::size_t free = 0, total = 0;
  ANSWERS(cu.cuMemGetInfo(&free, &total), CUDA_ERROR_ILLEGAL_ADDRESS);
  ANSWERS(cu.cuMemFree(kept), CUDA_ERROR_ILLEGAL_ADDRESS);
  ANSWERS(cu.cuMemAlloc(&more, 4096), CUDA_ERROR_ILLEGAL_ADDRESS);
  ANSWERS(cu.cuStreamQuery(nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace
}  // namespace conformance
