// SPDX-License-Identifier: Apache-2.0
// Plain allocations, and the amount of free memory.
#include "tests/conformance/session.h"

namespace conformance {
namespace memory {

constexpr const char* kSubject = "memory";
#define MEMORY "Memory Management: "

RULE(alloc_of_nothing_fails, "An allocation of no bytes is refused", MEMORY "cuMemAlloc") {
  CUdeviceptr at = 0;
  ANSWERS(cu.cuMemAlloc(&at, 0), CUDA_ERROR_INVALID_VALUE);
}

RULE(alloc_needs_a_place, "An allocation without a pointer for its address is refused", MEMORY "cuMemAlloc",
     .open = "which error") {
  FAILS(cu.cuMemAlloc(nullptr, 4096));
}

RULE(alloc_is_aligned, "An allocation begins at a multiple of 256 bytes", "Programming Guide: Device Memory Accesses") {
  for (std::size_t bytes : {1u, 3u, 257u, 5000u})
    HOLDS(session.allocate(bytes) % 256 == 0, "the address is a multiple");
}

RULE(allocs_do_not_overlap, "Allocations do not overlap, and writes to one do not change another",
     MEMORY "cuMemAlloc") {
  CUdeviceptr at[16] = {};
  for (std::uint32_t i = 0; i < 16; ++i) {
    at[i] = session.allocate(1000 + 700 * i);
    OK(cu.cuMemsetD8(at[i], static_cast<unsigned char>(i), 1000 + 700 * i));
  }
  for (std::uint32_t i = 0; i < 16; ++i) HOLDS(session.holds(at[i], 250, i * 0x01010101u), "each has its own bytes");
}

RULE(alloc_beyond_memory,
     "An allocation larger than the device's memory is out of memory, and later requests are served",
     MEMORY "cuMemAlloc") {
  std::size_t total = 0;
  OK(cu.cuDeviceTotalMem(&total, 0));
  CUdeviceptr at = 0;
  ANSWERS(cu.cuMemAlloc(&at, 2 * total), CUDA_ERROR_OUT_OF_MEMORY);
  session.allocate(4096);
}

RULE(free_needs_the_start, "Memory is freed by its first address; an address inside is refused", MEMORY "cuMemFree") {
  const CUdeviceptr at = session.allocate(4096);
  ANSWERS(cu.cuMemFree(at + 256), CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuMemFree(at));
}

RULE(free_once, "Memory that was freed cannot be freed again", MEMORY "cuMemFree") {
  const CUdeviceptr at = session.allocate(std::size_t{4} << 20);
  OK(cu.cuMemFree(at));
  ANSWERS(cu.cuMemFree(at), CUDA_ERROR_INVALID_VALUE);
}

RULE(pitch_covers_the_row, "A pitch is at least the row's width, and a multiple of what textures need",
     MEMORY "cuMemAllocPitch") {
  CUdeviceptr at = 0;
  std::size_t pitch = 0;
  OK(cu.cuMemAllocPitch(&at, &pitch, 1000, 10, 4));
  HOLDS(pitch >= 1000, "wide enough");
  const auto alignment = static_cast<std::size_t>(session.attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT));
  HOLDS(pitch % alignment == 0, "aligned for textures");
  OK(cu.cuMemsetD8(at, 1, pitch * 10));
}

RULE(pitch_needs_a_known_element, "Elements of a pitched allocation have 4, 8 or 16 bytes", MEMORY "cuMemAllocPitch") {
  CUdeviceptr at = 0;
  std::size_t pitch = 0;
  ANSWERS(cu.cuMemAllocPitch(&at, &pitch, 1000, 10, 3), CUDA_ERROR_INVALID_VALUE);
}

RULE(managed_memory_is_the_hosts_too, "The device writes managed memory, and the host reads it",
     "Unified Memory: cuMemAllocManaged", .needs = CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) {
  CUdeviceptr at = 0;
  OK(cu.cuMemAllocManaged(&at, 4096, CU_MEM_ATTACH_GLOBAL));
  OK(cu.cuMemsetD32(at, 81, 1024));
  session.synchronize();
  HOLDS(*reinterpret_cast<const volatile std::uint32_t*>(at) == 81, "the host reads the device's word");
}

}  // namespace memory

namespace memory_info {

constexpr const char* kSubject = "memory info";
constexpr int kMapping = CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
constexpr std::size_t kMebi = std::size_t{1} << 20;
constexpr std::size_t kSlack =
    32 * kMebi;  // allowance for the driver's own data; more than any driver has been observed to take
constexpr std::size_t kBytes = 256 * kMebi;
#define INFO "Memory Management: cuMemGetInfo; Virtual Memory Management: "

bool near(std::size_t a, std::size_t b) { return (a > b ? a - b : b - a) < kSlack; }

RULE(free_is_within_total, "Free memory does not exceed total memory", "Memory Management: cuMemGetInfo") {
  std::size_t free = 0, total = 0;
  OK(cu.cuMemGetInfo(&free, &total));
  HOLDS(free > 0 && free <= total, "0 < free <= total");
}

RULE(alloc_takes_memory, "An allocation reduces free memory by its size, and freeing it returns that",
     "Memory Management: cuMemGetInfo", .open = "memory for the driver's own records; up to 32 MiB") {
  const std::size_t before = session.free_memory();
  const CUdeviceptr at = session.allocate(kBytes);
  HOLDS(near(before - session.free_memory(), kBytes), "as much less is free");
  OK(cu.cuMemFree(at));
  HOLDS(near(session.free_memory(), before), "as much as before is free");
}

RULE(create_takes_memory, "A handle takes its memory when it is created, mapped or not", INFO "cuMemCreate",
     .open = "memory for the driver's own records; up to 32 MiB", .needs = kMapping) {
  const std::size_t before = session.free_memory();
  session.create(kBytes);
  HOLDS(near(before - session.free_memory(), kBytes), "as much less is free");
}

RULE(mapping_takes_no_memory, "Mapping a handle and giving access take no further memory", INFO "cuMemMap",
     .open = "memory for the driver's own records; up to 32 MiB", .needs = kMapping) {
  const CUmemGenericAllocationHandle handle = session.create(kBytes);
  const CUdeviceptr at = session.reserve(kBytes);
  const std::size_t before = session.free_memory();
  session.map(at, kBytes, handle);
  session.grant(at, kBytes);
  HOLDS(near(before, session.free_memory()), "as much is free");
}

RULE(unmapping_keeps_the_handles_memory, "Unmapping returns no memory while the handle is held", INFO "cuMemUnmap",
     .open = "memory for the driver's own records; up to 32 MiB", .needs = kMapping) {
  const CUmemGenericAllocationHandle handle = session.create(kBytes);
  const CUdeviceptr at = session.reserve(kBytes);
  session.map(at, kBytes, handle);
  const std::size_t before = session.free_memory();
  OK(cu.cuMemUnmap(at, kBytes));
  HOLDS(near(before, session.free_memory()), "as much is free");
  OK(cu.cuMemRelease(handle));
  HOLDS(near(session.free_memory() - before, kBytes), "releasing the handle gives it back");
}

RULE(releasing_keeps_the_mappings_memory,
     "Releasing a handle returns no memory while it is mapped; unmapping then does", INFO "cuMemRelease",
     .open = "memory for the driver's own records; up to 32 MiB", .needs = kMapping) {
  const CUmemGenericAllocationHandle handle = session.create(kBytes);
  const CUdeviceptr at = session.reserve(kBytes);
  session.map(at, kBytes, handle);
  const std::size_t before = session.free_memory();
  OK(cu.cuMemRelease(handle));
  HOLDS(near(before, session.free_memory()), "as much is free");
  OK(cu.cuMemUnmap(at, kBytes));
  HOLDS(near(session.free_memory() - before, kBytes), "unmapping gives it back");
}

RULE(retained_handle_keeps_memory, "A handle that was retained must be released as often before its memory is free",
     INFO "cuMemRetainAllocationHandle", .open = "memory for the driver's own records; up to 32 MiB",
     .needs = kMapping) {
  const CUmemGenericAllocationHandle handle = session.create(kBytes);
  const CUdeviceptr at = session.reserve(kBytes);
  session.map(at, kBytes, handle);
  CUmemGenericAllocationHandle again = 0;
  OK(cu.cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(at)));
  OK(cu.cuMemUnmap(at, kBytes));
  const std::size_t before = session.free_memory();
  OK(cu.cuMemRelease(handle));
  HOLDS(near(before, session.free_memory()), "as much is free after the first");
  OK(cu.cuMemRelease(again));
  HOLDS(near(session.free_memory() - before, kBytes), "the second gives it back");
}

}  // namespace memory_info
}  // namespace conformance
