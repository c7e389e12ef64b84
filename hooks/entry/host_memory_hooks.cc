// SPDX-License-Identifier: Apache-2.0
// Host memory that kernels may read in place: the library only has to know where it is
// (hooks/operands/host_allocations.h).
#include "hooks/operands/host_allocations.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/driver_room.h"
#include "hooks/submit/host_room.h"

namespace thermocline {
namespace {

// If it cannot be remembered, tables there are not seen. Returns the result of the program's call.
CUresult remember(CUresult result, const HostAllocation& one) {
  static_cast<void>(guarded([&] {
    host_allocations().added(one.begin, one.bytes, one.memory);
    return CUDA_SUCCESS;
  }));
  return result;
}

CUresult remember(CUresult result, const void* at, Bytes bytes, HostMemory memory) {
  if (result != CUDA_SUCCESS || Inside::now()) return result;
  return remember(result, {reinterpret_cast<std::uintptr_t>(at), bytes, memory});
}

// Device registers are not remembered, because reading them may have effects.
CUresult registered(CUresult result, const void* at, Bytes bytes, unsigned int flags) {
  if ((flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return result;
  return remember(result, at, bytes, HostMemory::kPinned);
}

// Forgets it before it is freed: another thread may be given the address at once.
CUresult forget(const void* at, Call call) {
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  const std::optional<HostAllocation> before = host_allocations().find(begin);
  host_allocations().removed(begin);
  const CUresult result = call();
  if (result == CUDA_SUCCESS || !before.has_value() || before->begin != begin) return result;
  return remember(result, *before);
}

}  // namespace
}  // namespace thermocline

extern "C" {

CUresult CUDAAPI cuMemAllocHost_v2(void** pp, size_t bytesize) {
  using namespace thermocline;
  const CUresult result = with_host_room([&] { return real<Function::cuMemAllocHost_v2>(pp, bytesize); });
  return pp == nullptr ? result : remember(result, *pp, bytesize, HostMemory::kPinned);
}

CUresult CUDAAPI cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
  using namespace thermocline;
  const CUresult result = with_host_room([&] { return real<Function::cuMemHostAlloc>(pp, bytesize, Flags); });
  return pp == nullptr ? result : remember(result, *pp, bytesize, HostMemory::kPinned);
}

CUresult CUDAAPI cuMemHostRegister(void* p, size_t bytesize, unsigned int Flags) {
  using namespace thermocline;
  const CUresult result = with_host_room([&] { return real<Function::cuMemHostRegister>(p, bytesize, Flags); });
  return registered(result, p, bytesize, Flags);
}

CUresult CUDAAPI cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
  using namespace thermocline;
  const CUresult result = with_host_room([&] { return real<Function::cuMemHostRegister_v2>(p, bytesize, Flags); });
  return registered(result, p, bytesize, Flags);
}

CUresult CUDAAPI cuMemFreeHost(void* p) {
  using namespace thermocline;
  return forget(p, [&] { return real<Function::cuMemFreeHost>(p); });
}

CUresult CUDAAPI cuMemHostUnregister(void* p) {
  using namespace thermocline;
  return forget(p, [&] { return real<Function::cuMemHostUnregister>(p); });
}

// No free function for managed memory can be hooked: before a read, the driver is asked whether it still exists.
CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
  using namespace thermocline;
  const CUresult result =
      with_driver_room([&] { return heard(real<Function::cuMemAllocManaged>(dptr, bytesize, flags)); });
  if (dptr == nullptr) return result;
  return remember(result, reinterpret_cast<const void*>(*dptr), bytesize, HostMemory::kManaged);  // NOLINT
}

}  // extern "C"
