// SPDX-License-Identifier: Apache-2.0
// First forms of functions whose later form has the same parameters, for scripts that look symbols up by their plain
// names. First forms with 32-bit addresses are refused (refused.cc).
#include <cstddef>

#include "simulator/cuda/api.h"

SIMULATED_API CUresult cuCtxCreate(CUcontext* context, unsigned flags, CUdevice device) {
  return cuCtxCreate_v2(context, flags, device);
}
SIMULATED_API CUresult cuCtxDestroy(CUcontext context) { return cuCtxDestroy_v2(context); }
SIMULATED_API CUresult cuCtxPopCurrent(CUcontext* context) { return cuCtxPopCurrent_v2(context); }
SIMULATED_API CUresult cuCtxPushCurrent(CUcontext context) { return cuCtxPushCurrent_v2(context); }
SIMULATED_API CUresult cuEventDestroy(CUevent event) { return cuEventDestroy_v2(event); }
SIMULATED_API CUresult cuMemHostRegister(void* at, std::size_t bytes, unsigned flags) {
  return cuMemHostRegister_v2(at, bytes, flags);
}
SIMULATED_API CUresult cuLinkAddData(CUlinkState link, CUjitInputType type, void* data, std::size_t bytes,
                                     const char* name, unsigned count, CUjit_option* options, void** values) {
  return cuLinkAddData_v2(link, type, data, bytes, name, count, options, values);
}
SIMULATED_API CUresult cuLinkAddFile(CUlinkState link, CUjitInputType type, const char* path, unsigned count,
                                     CUjit_option* options, void** values) {
  return cuLinkAddFile_v2(link, type, path, count, options, values);
}
SIMULATED_API CUresult cuLinkCreate(unsigned count, CUjit_option* options, void** values, CUlinkState* out) {
  return cuLinkCreate_v2(count, options, values, out);
}
SIMULATED_API CUresult cuStreamDestroy(CUstream stream) { return cuStreamDestroy_v2(stream); }
