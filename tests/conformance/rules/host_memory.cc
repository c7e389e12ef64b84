// SPDX-License-Identifier: Apache-2.0
// Pinned and registered host memory.
#include <cstdlib>
#include <cstring>

#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "host memory";
constexpr std::size_t kPage = 4096;
#define HOST "Memory Management: "

void* pages(std::size_t count) {
  void* const at = std::aligned_alloc(kPage, count * kPage);
  std::memset(at, 0, count * kPage);
  return at;
}

RULE(pinned_address_is_the_devices, "The device sees pinned memory at the host's address", HOST "cuMemHostAlloc") {
  void* const at = session.pinned(kPage);
  CUdeviceptr device = 0;
  OK(cu.cuMemHostGetDevicePointer(&device, at, 0));
  HOLDS(device == reinterpret_cast<CUdeviceptr>(at), "one address");
}

RULE(device_pointer_inside_pinned_memory, "An address inside pinned memory has a device address as well",
     HOST "cuMemHostGetDevicePointer", .open = "the page mentions only the buffer") {
  auto* const at = static_cast<char*>(session.pinned(kPage));
  CUdeviceptr device = 0;
  ANSWERS(cu.cuMemHostGetDevicePointer(&device, at + 100, 0), CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE);
}

RULE(pinned_memory_is_written_by_kernels, "A kernel writes pinned memory, and the host reads it after synchronization",
     HOST "cuMemHostAlloc") {
  auto* const at = static_cast<std::uint32_t*>(session.pinned(kPage));
  for (std::uint32_t i = 0; i < 1024; ++i) at[i] = i;
  session.add(reinterpret_cast<CUdeviceptr>(at), 1024, 1000, nullptr);
  session.synchronize();
  HOLDS(at[0] == 1000 && at[1023] == 2023, "every word has 1000 more");
}

RULE(host_flags_come_back, "Pinned memory returns the flags that it was allocated with", HOST "cuMemHostGetFlags",
     .open = "flags that the driver adds") {
  void* at = nullptr;
  OK(cu.cuMemHostAlloc(&at, kPage, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  unsigned flags = 0;
  OK(cu.cuMemHostGetFlags(&flags, at));
  HOLDS((flags & CU_MEMHOSTALLOC_PORTABLE) != 0 && (flags & CU_MEMHOSTALLOC_DEVICEMAP) != 0, "both");
}

RULE(host_flags_are_checked, "Unknown flags are refused", HOST "cuMemHostAlloc") {
  void* at = nullptr;
  ANSWERS(cu.cuMemHostAlloc(&at, kPage, 0x4000), CUDA_ERROR_INVALID_VALUE);
}

RULE(pageable_memory_has_no_device_pointer, "Memory that is neither pinned nor registered has no device address",
     HOST "cuMemHostGetDevicePointer", .open = "on devices that read the host's page tables it may have one") {
  CUdeviceptr device = 0;
  const bool reads_pages = session.attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) != 0;
  const CUresult result = cu.cuMemHostGetDevicePointer(&device, pages(1), 0);
  session.note(name_of(cu, result));
  HOLDS(reads_pages || result == CUDA_ERROR_INVALID_VALUE, "refused as invalid");
}

RULE(device_pointer_flags_are_zero, "Flags other than 0 are refused", HOST "cuMemHostGetDevicePointer") {
  CUdeviceptr device = 0;
  ANSWERS(cu.cuMemHostGetDevicePointer(&device, session.pinned(kPage), 8), CUDA_ERROR_INVALID_VALUE);
}

RULE(free_host_needs_its_own, "Only memory from cuMemHostAlloc and cuMemAllocHost can be freed as host memory",
     HOST "cuMemFreeHost", .open = "which error") {
  FAILS(cu.cuMemFreeHost(pages(1)));
}

RULE(free_host_once, "Pinned memory that was freed is no longer pinned", HOST "cuMemFreeHost",
     .open = "which error the query returns") {
  void* const at = session.pinned(64 * kPage);
  OK(cu.cuMemFreeHost(at));
  unsigned flags = 0;
  FAILS(cu.cuMemHostGetFlags(&flags, at));
}

RULE(old_form_pins_too, "cuMemAllocHost returns pinned memory that is freed in the same way",
     HOST "cuMemAllocHost, cuMemFreeHost") {
  void* at = nullptr;
  OK(cu.cuMemAllocHost(&at, kPage));
  const CUdeviceptr device = session.allocate(kPage);
  std::memset(at, 3, kPage);
  OK(cu.cuMemcpyHtoD(device, at, kPage));
  HOLDS(session.holds(device, 1024, 0x03030303), "a copy from it arrives");
  OK(cu.cuMemFreeHost(at));
}

RULE(register_twice_fails, "Memory that is registered cannot be registered again", HOST "cuMemHostRegister") {
  void* const at = pages(4);
  OK(cu.cuMemHostRegister(at, 4 * kPage, 0));
  ANSWERS(cu.cuMemHostRegister(at, 4 * kPage, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
}

RULE(register_overlap_fails, "A range that overlaps a registered one cannot be registered", HOST "cuMemHostRegister") {
  auto* const at = static_cast<char*>(pages(4));
  OK(cu.cuMemHostRegister(at, 2 * kPage, 0));
  ANSWERS(cu.cuMemHostRegister(at + kPage, 2 * kPage, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
}

RULE(register_rejects_nothing, "No bytes, or a null address, cannot be registered", HOST "cuMemHostRegister") {
  ANSWERS(cu.cuMemHostRegister(pages(1), 0, 0), CUDA_ERROR_INVALID_VALUE);
  ANSWERS(cu.cuMemHostRegister(nullptr, kPage, 0), CUDA_ERROR_INVALID_VALUE);
}

RULE(register_flags_are_checked, "Unknown flags are refused", HOST "cuMemHostRegister") {
  ANSWERS(cu.cuMemHostRegister(pages(1), kPage, 0x4000), CUDA_ERROR_INVALID_VALUE);
}

RULE(registered_memory_serves_kernels,
     "A kernel reads and writes registered memory at the address that the driver returns", HOST "cuMemHostRegister") {
  auto* const at = static_cast<std::uint32_t*>(pages(2));
  OK(cu.cuMemHostRegister(at, 2 * kPage, CU_MEMHOSTREGISTER_DEVICEMAP));
  CUdeviceptr device = 0;
  OK(cu.cuMemHostGetDevicePointer(&device, at, 0));
  session.add(device, 2048, 17, nullptr);
  session.synchronize();
  HOLDS(at[0] == 17 && at[2047] == 17, "first and last word");
}

RULE(unregister_needs_a_registration, "Memory that is not registered cannot be unregistered",
     HOST "cuMemHostUnregister", .open = "whether it is called not registered or invalid") {
  ANSWERS(cu.cuMemHostUnregister(pages(1)), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, CUDA_ERROR_INVALID_VALUE);
}

RULE(unregister_needs_the_start, "Memory is unregistered by its first address; an address inside is refused",
     HOST "cuMemHostUnregister", .open = "which error") {
  auto* const at = static_cast<char*>(pages(4));
  OK(cu.cuMemHostRegister(at, 4 * kPage, 0));
  FAILS(cu.cuMemHostUnregister(at + kPage));
  OK(cu.cuMemHostUnregister(at));
}

RULE(pinned_memory_is_not_registered, "Memory that the driver allocated cannot be unregistered, only freed",
     HOST "cuMemHostUnregister", .open = "which error") {
  void* const at = session.pinned(kPage);
  FAILS(cu.cuMemHostUnregister(at));
  OK(cu.cuMemFreeHost(at));
}

RULE(unregistered_memory_registers_again,
     "Memory that was unregistered is ordinary host memory and can be registered again", HOST "cuMemHostUnregister") {
  void* const at = pages(2);
  for (int i = 0; i < 3; ++i) {
    OK(cu.cuMemHostRegister(at, 2 * kPage, 0));
    std::memset(at, i, 2 * kPage);
    OK(cu.cuMemHostUnregister(at));
  }
  HOLDS(*static_cast<char*>(at) == 2, "its contents stay");
}

}  // namespace
}  // namespace conformance
