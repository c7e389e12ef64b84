// SPDX-License-Identifier: Apache-2.0
// Pinned host memory. The device uses the host's addresses.
#include "simulator/cuda/call.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

constexpr unsigned kAllocFlags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

CUresult allocate_host(void** out, std::size_t bytes, unsigned flags, const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  if (out == nullptr || bytes == 0 || (flags & ~kAllocFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = call.machine().allocate_host(bytes, out);
  if (result == CUDA_SUCCESS)
    call.state().host_flags[reinterpret_cast<Address>(*out)] = flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return result;
}

// For the whole range that begins at `at`, if there is one.
CUresult wait_to_free(Call& call, const char* name, const void* at) {
  if (call.machine().driver().host_free_returns) return CUDA_SUCCESS;
  Address begin = 0;
  Bytes bytes = 0;
  if (!call.machine().pinned_at(at, &begin, &bytes) || begin != reinterpret_cast<Address>(at)) bytes = 0;
  return call.machine().wait_to_free(name, begin, bytes, false);
}

}  // namespace

SIMULATED_API CUresult cuMemAllocHost_v2(void** out, std::size_t bytes) { return allocate_host(out, bytes, 0); }

SIMULATED_API CUresult cuMemHostAlloc(void** out, std::size_t bytes, unsigned flags) {
  return allocate_host(out, bytes, flags);
}

// Waits for pending work, which may name the memory.
SIMULATED_API CUresult cuMemFreeHost(void* at) {
  Call call;
  if (!call) return call.result();
  if (at == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult fault = wait_to_free(call, "cuMemFreeHost", at);
  const CUresult result = call.machine().free_host(at);
  if (result == CUDA_SUCCESS) call.state().host_flags.erase(reinterpret_cast<Address>(at));
  return result != CUDA_SUCCESS ? result : fault;
}

SIMULATED_API CUresult cuMemHostRegister_v2(void* at, std::size_t bytes, unsigned flags) {
  Call call;
  if (!call) return call.result();
  if (at == nullptr || bytes == 0 || (flags & ~kRegisterFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = call.machine().register_host(at, bytes);
  if (result == CUDA_SUCCESS)
    call.state().host_flags[reinterpret_cast<Address>(at)] = flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return result;
}

SIMULATED_API CUresult cuMemHostUnregister(void* at) {
  Call call;
  if (!call) return call.result();
  if (at == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult fault = wait_to_free(call, "cuMemHostUnregister", at);
  const CUresult result = call.machine().unregister_host(at);
  if (result == CUDA_SUCCESS) call.state().host_flags.erase(reinterpret_cast<Address>(at));
  return result != CUDA_SUCCESS ? result : fault;
}

SIMULATED_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* at, unsigned flags) {
  Call call;
  if (!call) return call.result();
  Address begin = 0;
  Bytes bytes = 0;
  if (out == nullptr || flags != 0 || !call.machine().pinned_at(at, &begin, &bytes)) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<Address>(at);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuMemHostGetFlags(unsigned* flags, void* at) {
  Call call;
  if (!call) return call.result();
  Address begin = 0;
  Bytes bytes = 0;
  if (flags == nullptr || !call.machine().pinned_at(at, &begin, &bytes)) return CUDA_ERROR_INVALID_VALUE;
  const auto found = call.state().host_flags.find(begin);
  *flags = found == call.state().host_flags.end() ? 0 : found->second;
  return CUDA_SUCCESS;
}
