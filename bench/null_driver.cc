// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 that does nothing and returns at once, so that only the library's own bookkeeping is measured. It
// returns device addresses and handles without memory, reports success for everything, and counts the calls
// (null_driver_calls).
#include <sys/mman.h>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <cuda.h>
#include "bench/null_driver.h"
#include "driver/page_size.h"

#define THERMOCLINE_ENTRY extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI

namespace {

thread_local std::uint64_t calls = 0;
std::uint64_t next_address = std::uint64_t{0x7E} << 40;
std::uint64_t next_handle = 1;
alignas(16) char the_context[16];

CUresult called() {
  ++calls;
  return CUDA_SUCCESS;
}

}  // namespace

// The number of calls that the calling thread has made.
extern "C" __attribute__((visibility("default"))) std::uint64_t null_driver_calls() { return calls; }

THERMOCLINE_ENTRY cuInit(unsigned int) { return called(); }
// Not counted: querying the current context only reads a thread-local variable.
THERMOCLINE_ENTRY cuCtxGetCurrent(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(the_context);
  return CUDA_SUCCESS;
}
THERMOCLINE_ENTRY cuCtxPushCurrent_v2(CUcontext) { return called(); }
THERMOCLINE_ENTRY cuCtxPopCurrent_v2(CUcontext* context) { return cuCtxGetCurrent(context); }
THERMOCLINE_ENTRY cuCtxGetDevice(CUdevice* device) {
  *device = 0;
  return called();
}
THERMOCLINE_ENTRY cuCtxSynchronize() { return called(); }
THERMOCLINE_ENTRY cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) {
  *value = 1;
  return called();
}
THERMOCLINE_ENTRY cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) {
  *bytes = kDeviceMemory;
  return called();
}
THERMOCLINE_ENTRY cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = *total = kDeviceMemory;
  return called();
}
THERMOCLINE_ENTRY cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp*,
                                                CUmemAllocationGranularity_flags) {
  *bytes = thermocline::kDefaultPageBytes;
  return called();
}
THERMOCLINE_ENTRY cuMemAddressReserve(CUdeviceptr* at, std::size_t bytes, std::size_t, CUdeviceptr,
                                      unsigned long long) {
  *at = next_address;
  next_address += bytes;
  return called();
}
THERMOCLINE_ENTRY cuMemAddressFree(CUdeviceptr, std::size_t) { return called(); }
THERMOCLINE_ENTRY cuMemCreate(CUmemGenericAllocationHandle* page, std::size_t, const CUmemAllocationProp*,
                              unsigned long long) {
  *page = next_handle++;
  return called();
}
THERMOCLINE_ENTRY cuMemRelease(CUmemGenericAllocationHandle) { return called(); }
THERMOCLINE_ENTRY cuMemMap(CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle, unsigned long long) {
  return called();
}
THERMOCLINE_ENTRY cuMemSetAccess(CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t) { return called(); }
THERMOCLINE_ENTRY cuMemUnmap(CUdeviceptr, std::size_t) { return called(); }
THERMOCLINE_ENTRY cuMemcpyDtoHAsync_v2(void*, CUdeviceptr, std::size_t, CUstream) { return called(); }
THERMOCLINE_ENTRY cuMemcpyHtoDAsync_v2(CUdeviceptr, const void*, std::size_t, CUstream) { return called(); }
THERMOCLINE_ENTRY cuStreamCreate(CUstream* stream, unsigned int) {
  *stream = reinterpret_cast<CUstream>(0x1000 + 16 * next_handle++);
  return called();
}
THERMOCLINE_ENTRY cuStreamDestroy_v2(CUstream) { return called(); }
THERMOCLINE_ENTRY cuStreamSynchronize(CUstream) { return called(); }
THERMOCLINE_ENTRY cuStreamWaitEvent(CUstream, CUevent, unsigned int) { return called(); }
THERMOCLINE_ENTRY cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return called();
}
THERMOCLINE_ENTRY cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) { return called(); }
THERMOCLINE_ENTRY cuEventCreate(CUevent* event, unsigned int) {
  *event = reinterpret_cast<CUevent>(0x1000 + 16 * next_handle++);
  return called();
}
THERMOCLINE_ENTRY cuEventDestroy_v2(CUevent) { return called(); }
THERMOCLINE_ENTRY cuEventRecord(CUevent, CUstream) { return called(); }
THERMOCLINE_ENTRY cuEventQuery(CUevent) { return called(); }
THERMOCLINE_ENTRY cuEventSynchronize(CUevent) { return called(); }
THERMOCLINE_ENTRY cuEventElapsedTime(float* milliseconds, CUevent, CUevent) {
  *milliseconds = 1;
  return called();
}
// Addresses of one range, in turn, whose memory costs something only where it is accessed: the library reads what it
// has had copied to the host. Nobody has so much live that an address is handed out twice.
THERMOCLINE_ENTRY cuMemHostAlloc(void** at, std::size_t bytes, unsigned int) {
  constexpr std::size_t kRange = std::size_t{1} << 40;
  static void* const range =
      mmap(nullptr, 2 * kRange, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  static std::atomic<std::uint64_t> next{0};
  if (range == MAP_FAILED || bytes > kRange) return CUDA_ERROR_OUT_OF_MEMORY;
  *at = static_cast<char*>(range) + next.fetch_add((bytes + 4095) / 4096 * 4096) % kRange;
  return called();
}
THERMOCLINE_ENTRY cuMemFreeHost(void*) { return called(); }
THERMOCLINE_ENTRY cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                 unsigned int, unsigned int, CUstream, void**, void**) {
  return called();
}
// A function handle is the size in bytes of its only parameter.
THERMOCLINE_ENTRY cuFuncGetParamInfo(CUfunction function, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  if (index > 0) return CUDA_ERROR_INVALID_VALUE;
  *offset = 0;
  *bytes = reinterpret_cast<std::uintptr_t>(function);
  return called();
}
