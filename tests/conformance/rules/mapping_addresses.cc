// SPDX-License-Identifier: Apache-2.0
// Address reservations and physical handles, before anything is mapped.
#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "mapping";
constexpr int kMapping = CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
constexpr std::size_t kMebi = std::size_t{1} << 20;

RULE(reserve_rejects_size_off_page, "A reservation's size is a multiple of the host's page size; one byte is refused",
     "Virtual Memory Management: cuMemAddressReserve", .needs = kMapping) {
  CUdeviceptr at = 0;
  ANSWERS(cu.cuMemAddressReserve(&at, 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

RULE(reserve_rejects_nothing, "A reservation of no bytes is refused", "Virtual Memory Management: cuMemAddressReserve",
     .open = "whether it is refused as invalid; any error is accepted", .needs = kMapping) {
  CUdeviceptr at = 0;
  FAILS(cu.cuMemAddressReserve(&at, 0, 0, 0, 0));
}

RULE(reserve_alignment_is_power_of_two, "An alignment that is no power of two is refused",
     "Virtual Memory Management: cuMemAddressReserve", .needs = kMapping) {
  CUdeviceptr at = 0;
  ANSWERS(cu.cuMemAddressReserve(&at, session.granule(), 3 * session.granule(), 0, 0), CUDA_ERROR_INVALID_VALUE);
}

RULE(reserve_keeps_alignment, "A reservation begins at a multiple of the requested alignment",
     "Virtual Memory Management: cuMemAddressReserve", .needs = kMapping) {
  const std::size_t alignment = 64 * kMebi;
  for (int i = 0; i < 4; ++i) {
    CUdeviceptr at = 0;
    OK(cu.cuMemAddressReserve(&at, session.granule(), alignment, 0, 0));
    HOLDS(at % alignment == 0, "the address is a multiple of 64 MiB");
  }
}

RULE(reserve_flags_are_zero, "Flags other than 0 are refused", "Virtual Memory Management: cuMemAddressReserve",
     .needs = kMapping) {
  CUdeviceptr at = 0;
  ANSWERS(cu.cuMemAddressReserve(&at, session.granule(), 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
}

RULE(reserve_hint_is_a_hint, "If the hint is an address in use, the reservation succeeds at another address",
     "Virtual Memory Management: cuMemAddressReserve", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr first = session.reserve(bytes);
  CUdeviceptr second = 0;
  OK(cu.cuMemAddressReserve(&second, bytes, 0, first, 0));
  HOLDS(second >= first + bytes || second + bytes <= first, "two reservations do not overlap");
}

RULE(reserve_takes_no_memory, "More addresses than the device has memory may be reserved, and take none of it",
     "Virtual Memory Management: cuMemAddressReserve", .needs = kMapping) {
  std::size_t total = 0;
  OK(cu.cuDeviceTotalMem(&total, 0));
  const std::size_t bytes = (4 * total / session.granule() + 1) * session.granule();
  const std::size_t before = session.free_memory();
  session.reserve(bytes);
  HOLDS(before - session.free_memory() < total / 8,
        "free memory is what it was, but for what the driver keeps books with");
}

RULE(address_free_needs_the_whole, "A reservation is freed as it was made; a part, or another size, is refused",
     "Virtual Memory Management: cuMemAddressFree", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.reserve(2 * bytes);
  ANSWERS(cu.cuMemAddressFree(at, bytes), CUDA_ERROR_INVALID_VALUE);
  ANSWERS(cu.cuMemAddressFree(at + bytes, bytes), CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuMemAddressFree(at, 2 * bytes));
}

RULE(address_free_once, "A reservation that was freed cannot be freed again",
     "Virtual Memory Management: cuMemAddressFree", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.reserve(bytes);
  OK(cu.cuMemAddressFree(at, bytes));
  ANSWERS(cu.cuMemAddressFree(at, bytes), CUDA_ERROR_INVALID_VALUE);
}

RULE(address_free_of_a_mapping_fails, "A reservation that holds a mapping cannot be freed; the mapping stays",
     "Programming Guide: Virtual Memory Management", .open = "which error", .needs = kMapping) {
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.mapped(bytes);
  session.write(at, {7});
  FAILS(cu.cuMemAddressFree(at, bytes));
  HOLDS(session.holds(at, 1, 7), "the mapping still shows its memory");
}

RULE(granularity_is_sane, "The smallest granularity is a power of two and divides the recommended one",
     "Virtual Memory Management: cuMemGetAllocationGranularity", .needs = kMapping) {
  const CUmemAllocationProp wanted = session.properties();
  std::size_t least = 0, recommended = 0;
  OK(cu.cuMemGetAllocationGranularity(&least, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  OK(cu.cuMemGetAllocationGranularity(&recommended, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  HOLDS(least != 0 && (least & (least - 1)) == 0, "a power of two");
  HOLDS(recommended % least == 0, "the recommended one is a multiple of it");
  session.note("minimum " + std::to_string(least) + ", recommended " + std::to_string(recommended));
}

RULE(create_rejects_size_off_granularity, "A handle's size is a multiple of the smallest granularity",
     "Virtual Memory Management: cuMemCreate", .needs = kMapping) {
  const CUmemAllocationProp wanted = session.properties();
  CUmemGenericAllocationHandle handle = 0;
  ANSWERS(cu.cuMemCreate(&handle, session.granule() / 2, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
  ANSWERS(cu.cuMemCreate(&handle, session.granule() + 1, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
}

RULE(create_rejects_nothing, "A handle of no bytes is refused", "Virtual Memory Management: cuMemCreate",
     .open = "which error", .needs = kMapping) {
  const CUmemAllocationProp wanted = session.properties();
  CUmemGenericAllocationHandle handle = 0;
  FAILS(cu.cuMemCreate(&handle, 0, &wanted, 0));
}

RULE(create_flags_are_zero, "Flags other than 0 are refused", "Virtual Memory Management: cuMemCreate",
     .needs = kMapping) {
  const CUmemAllocationProp wanted = session.properties();
  CUmemGenericAllocationHandle handle = 0;
  ANSWERS(cu.cuMemCreate(&handle, session.granule(), &wanted, 1), CUDA_ERROR_INVALID_VALUE);
}

RULE(create_needs_a_device_that_exists, "A handle on a device that does not exist is refused",
     "Virtual Memory Management: cuMemCreate", .open = "whether the device or the value is called invalid",
     .needs = kMapping) {
  CUmemAllocationProp wanted = session.properties();
  wanted.location.id = 1000;
  CUmemGenericAllocationHandle handle = 0;
  ANSWERS(cu.cuMemCreate(&handle, std::size_t{2} * kMebi, &wanted, 0), CUDA_ERROR_INVALID_DEVICE,
          CUDA_ERROR_INVALID_VALUE);
}

RULE(create_beyond_memory, "A handle larger than the device is out of memory, and takes none",
     "Virtual Memory Management: cuMemCreate", .needs = kMapping) {
  std::size_t total = 0;
  OK(cu.cuDeviceTotalMem(&total, 0));
  const CUmemAllocationProp wanted = session.properties();
  const std::size_t before = session.free_memory();
  CUmemGenericAllocationHandle handle = 0;
  const std::size_t bytes = (2 * total / session.granule()) * session.granule();
  ANSWERS(cu.cuMemCreate(&handle, bytes, &wanted, 0), CUDA_ERROR_OUT_OF_MEMORY);
  HOLDS(session.free_memory() >= before - 64 * kMebi, "as much is free as before");
  session.mapped(session.granule());
}

RULE(properties_come_back, "A handle returns the properties that it was created with",
     "Virtual Memory Management: cuMemGetAllocationPropertiesFromHandle", .needs = kMapping) {
  CUmemAllocationProp found = {};
  OK(cu.cuMemGetAllocationPropertiesFromHandle(&found, session.create(session.granule())));
  HOLDS(found.type == CU_MEM_ALLOCATION_TYPE_PINNED, "the type is that of the handle");
  HOLDS(found.location.type == CU_MEM_LOCATION_TYPE_DEVICE && found.location.id == 0, "so is the place");
}

}  // namespace
}  // namespace conformance
