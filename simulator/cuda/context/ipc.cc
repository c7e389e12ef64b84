// SPDX-License-Identifier: Apache-2.0
// Memory shared between processes: CUDA IPC handles of cuMemAlloc's memory, and descriptors of memory that was created
// for export. Events are not shared.
//
// A CUDA IPC handle contains the place of the memory in its process. Opening it maps the same pages as a whole; CUDA
// documents that the block around a small allocation is shared with it. A handle can not be opened in the process that
// made it, as in every known driver. Work in one process is complete for the others when that process has waited for
// it: processes have no common timeline. It is undefined what happens to memory that is freed while others have it
// open.
//
// The DMA-BUF descriptor of a range is for other devices on the bus. There are none, so such a descriptor can only be
// held and closed.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "simulator/cuda/context/ipc.h"
#include "simulator/cuda/memory/memory_kinds.h"

namespace simulator::cuda {
namespace {

constexpr std::uint64_t kMagic = 0x7369'6d75'6970'6331;

// The contents of a CUipcMemHandle.
struct Handle {
  std::uint64_t magic = kMagic;
  FilePlace place;            // of the pages around it
  Bytes bytes = 0;            // of the allocation
  Bytes within = 0;           // offset of the allocation in them
  unsigned long long id = 0;  // distinguishes successive allocations at one address
};
static_assert(sizeof(Handle) <= sizeof(CUipcMemHandle));

// The program has no way to name a stream here, so the pages are freed when all pending work has ended.
CUresult close_at(Call& call, Address at) {
  const auto found = call.state().opened.find(at);
  const Opened opened = found->second;
  const CUresult fault = call.machine().wait_to_free("cuIpcCloseMemHandle", at, opened.bytes, true);
  call.state().opened.erase(found);
  call.state().allocations.erase(at);
  call.machine().unregister_buffer(at);
  CUresult result = call.machine().unmap(opened.pages, opened.bytes);
  if (result == CUDA_SUCCESS) result = call.machine().release_addresses(opened.pages, opened.bytes);
  return fault != CUDA_SUCCESS ? fault : result;
}

// Reserves, maps and gives access; on failure nothing of it remains.
CUresult map_anywhere(Machine& machine, PhysicalId physical, Bytes bytes, DeviceId device, Address* out) {
  CUresult result = machine.reserve(bytes, 0, 0, out);
  if (result != CUDA_SUCCESS) return result;
  result = machine.map(*out, bytes, 0, physical);
  if (result == CUDA_SUCCESS) result = machine.set_access(*out, bytes, Access::kReadWrite, device);
  if (result == CUDA_SUCCESS) return result;
  machine.unmap(*out, bytes);
  machine.release_addresses(*out, bytes);
  return CUDA_ERROR_MAP_FAILED;
}

CUresult open(Call& call, const CUipcMemHandle& raw, const Handle& handle, Address* out) {
  Machine& machine = call.machine();
  const Bytes pages = round_up(handle.within + handle.bytes, kPageBytes);
  PhysicalId physical = 0;
  if (const CUresult result = machine.open_physical(handle.place, pages, &physical, call.device());
      result != CUDA_SUCCESS)
    return result;
  Address at = 0;
  CUresult result = map_anywhere(machine, physical, pages, call.device(), &at);
  machine.release_physical(physical);  // the mapping keeps it
  if (result != CUDA_SUCCESS) return result;
  *out = at + handle.within;
  result = machine.register_buffer(*out, handle.bytes, Fresh::kNo);
  if (result != CUDA_SUCCESS) return result;
  Allocation allocation;
  allocation.bytes = handle.bytes;
  allocation.kind = AllocationKind::kOpened;
  allocation.id = call.state().next_id++;
  allocation.context = call.context();
  call.state().allocations[*out] = allocation;
  call.state().opened[*out] = {raw, 1, at, pages};
  return CUDA_SUCCESS;
}

}  // namespace

void close_all_of(Call& call, CUcontext context) {
  std::vector<Address> mine;
  for (const auto& [at, opened] : call.state().opened) {
    if (call.state().allocations.at(at).context == context) mine.push_back(at);
  }
  for (const Address at : mine) close_at(call, at);
}

}  // namespace simulator::cuda

using namespace simulator;
using namespace simulator::cuda;

SIMULATED_API CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr at) {
  Call call;
  if (!call) return call.result();
  const auto found = call.state().allocations.find(at);
  if (out == nullptr || found == call.state().allocations.end() || found->second.kind != AllocationKind::kDevice)
    return CUDA_ERROR_INVALID_VALUE;
  Handle handle;
  handle.bytes = found->second.bytes;
  handle.within = at % kPageBytes;
  handle.id = found->second.id;
  const auto place = call.machine().show_to_others(at, handle.bytes);
  if (!place) return CUDA_ERROR_NOT_SUPPORTED;
  handle.place = *place;
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle raw, unsigned flags) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  Handle handle;
  std::memcpy(static_cast<void*>(&handle), &raw, sizeof handle);
  if (handle.magic != kMagic || handle.bytes == 0 || handle.within >= kPageBytes) return CUDA_ERROR_INVALID_HANDLE;
  if (handle.place.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  for (auto& [at, opened] : call.state().opened) {
    if (std::memcmp(&opened.handle, &raw, sizeof raw) != 0) continue;
    ++opened.users;
    *out = at;
    return CUDA_SUCCESS;
  }
  Address at = 0;
  const CUresult result = open(call, raw, handle, &at);
  if (result == CUDA_SUCCESS) *out = at;
  return result;
}

// The form of CUDA 4: the same without the checks of newer flags.
SIMULATED_API CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  return cuIpcOpenMemHandle_v2(out, handle, flags);
}

SIMULATED_API CUresult cuIpcCloseMemHandle(CUdeviceptr at) {
  Call call;
  if (!call) return call.result();
  const auto found = call.state().opened.find(at);
  if (found == call.state().opened.end()) return CUDA_ERROR_INVALID_VALUE;
  return --found->second.users > 0 ? CUDA_SUCCESS : close_at(call, at);
}

SIMULATED_API CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                                    CUmemAllocationHandleType type, unsigned long long flags) {
  Call call(Needs::kDriver);  // the memory has a device of its own
  if (!call) return call.result();
  if (out == nullptr || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  const int file = call.machine().shared_file(handle);
  if (file < 0) return CUDA_ERROR_INVALID_VALUE;
  const int theirs = dup(file);  // inherited by programs that are started
  if (theirs < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memcpy(out, &theirs, sizeof theirs);
  return CUDA_SUCCESS;
}

// The program keeps the descriptor and must close it.
SIMULATED_API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* os_handle,
                                                      CUmemAllocationHandleType type) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  PhysicalId physical = 0;
  const auto file = static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle));
  const CUresult result = call.machine().import_physical(file, &physical, call.device());
  if (result != CUDA_SUCCESS) return result;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = type;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, call.device()};
  call.state().physical.try_emplace(physical, properties);
  *out = physical;
  return CUDA_SUCCESS;
}

// cuda.h: memory from cuMemAlloc, or completely mapped; both numbers aligned to the host's pages.
SIMULATED_API CUresult cuMemGetHandleForAddressRange(void* out, CUdeviceptr at, std::size_t bytes,
                                                     CUmemRangeHandleType type, unsigned long long flags) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || flags != 0 || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD) return CUDA_ERROR_INVALID_VALUE;
  const auto host_page = static_cast<Bytes>(sysconf(_SC_PAGESIZE));
  if (bytes == 0 || at % host_page != 0 || bytes % host_page != 0) return CUDA_ERROR_INVALID_VALUE;
  for (Address one = at; one < at + bytes; one = round_up(one + 1, kPageBytes)) {
    if (!call.machine().owner_at(one)) return CUDA_ERROR_INVALID_VALUE;
  }
  const int file = memfd_create("simulated-dma-buf", MFD_CLOEXEC);
  if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memcpy(out, &file, sizeof file);
  return CUDA_SUCCESS;
}
