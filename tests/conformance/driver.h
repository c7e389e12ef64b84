// SPDX-License-Identifier: Apache-2.0
// The driver under test: the functions that the rules call, looked up in one shared library by dlsym, with the types of
// cuda.h. Not linked against CUDA. A member has the exact name that cuda.h's macros map the function to, so
// `cu.cuMemAlloc` is cuMemAlloc_v2.
#pragma once

#include <cuda.h>

#include <string>

#define CONFORMANCE_DRIVER_FUNCTIONS(X)     \
  X(cuArray3DCreate)                        \
  X(cuArray3DGetDescriptor)                 \
  X(cuArrayCreate)                          \
  X(cuCtxCreate)                            \
  X(cuCtxDestroy)                           \
  X(cuCtxDisablePeerAccess)                 \
  X(cuCtxEnablePeerAccess)                  \
  X(cuCtxGetCurrent)                        \
  X(cuCtxGetDevice)                         \
  X(cuCtxGetStreamPriorityRange)            \
  X(cuCtxPopCurrent)                        \
  X(cuCtxPushCurrent)                       \
  X(cuCtxSetCurrent)                        \
  X(cuCtxSynchronize)                       \
  X(cuDeviceCanAccessPeer)                  \
  X(cuDeviceGet)                            \
  X(cuDeviceGetAttribute)                   \
  X(cuDeviceGetCount)                       \
  X(cuDeviceGetDefaultMemPool)              \
  X(cuDeviceGetGraphMemAttribute)           \
  X(cuDeviceGetMemPool)                     \
  X(cuDeviceGetName)                        \
  X(cuDeviceGetUuid)                        \
  X(cuDeviceGraphMemTrim)                   \
  X(cuDevicePrimaryCtxGetState)             \
  X(cuDevicePrimaryCtxRelease)              \
  X(cuDevicePrimaryCtxRetain)               \
  X(cuDeviceSetMemPool)                     \
  X(cuDeviceTotalMem)                       \
  X(cuDriverGetVersion)                     \
  X(cuEventCreate)                          \
  X(cuEventDestroy)                         \
  X(cuEventElapsedTime)                     \
  X(cuEventQuery)                           \
  X(cuEventRecord)                          \
  X(cuEventRecordWithFlags)                 \
  X(cuEventSynchronize)                     \
  X(cuFuncGetAttribute)                     \
  X(cuFuncGetModule)                        \
  X(cuFuncGetName)                          \
  X(cuFuncGetParamInfo)                     \
  X(cuFuncSetAttribute)                     \
  X(cuGetErrorName)                         \
  X(cuGetErrorString)                       \
  X(cuGetProcAddress)                       \
  X(cuGraphAddBatchMemOpNode)               \
  X(cuGraphAddChildGraphNode)               \
  X(cuGraphChildGraphNodeGetGraph)          \
  X(cuGraphAddDependencies)                 \
  X(cuGraphAddEmptyNode)                    \
  X(cuGraphAddKernelNode)                   \
  X(cuGraphAddMemAllocNode)                 \
  X(cuGraphAddMemFreeNode)                  \
  X(cuGraphAddMemcpyNode)                   \
  X(cuGraphAddMemsetNode)                   \
  X(cuGraphAddNode)                         \
  X(cuGraphBatchMemOpNodeSetParams)         \
  X(cuGraphClone)                           \
  X(cuGraphConditionalHandleCreate)         \
  X(cuGraphCreate)                          \
  X(cuGraphDestroy)                         \
  X(cuGraphDestroyNode)                     \
  X(cuGraphExecBatchMemOpNodeSetParams)     \
  X(cuGraphExecDestroy)                     \
  X(cuGraphExecKernelNodeSetParams)         \
  X(cuGraphExecUpdate)                      \
  X(cuGraphGetEdges)                        \
  X(cuGraphGetNodes)                        \
  X(cuGraphKernelNodeSetParams)             \
  X(cuGraphInstantiate)                     \
  X(cuGraphLaunch)                          \
  X(cuGraphMemAllocNodeGetParams)           \
  X(cuGraphMemFreeNodeGetParams)            \
  X(cuGraphNodeFindInClone)                 \
  X(cuGraphNodeGetType)                     \
  X(cuGraphNodeSetEnabled)                  \
  X(cuInit)                                 \
  X(cuIpcCloseMemHandle)                    \
  X(cuIpcGetMemHandle)                      \
  X(cuIpcOpenMemHandle)                     \
  X(cuKernelGetFunction)                    \
  X(cuKernelGetLibrary)                     \
  X(cuKernelGetParamInfo)                   \
  X(cuLaunchHostFunc)                       \
  X(cuLaunchKernel)                         \
  X(cuLaunchKernelEx)                       \
  X(cuLibraryGetGlobal)                     \
  X(cuLibraryGetKernel)                     \
  X(cuLibraryGetModule)                     \
  X(cuLibraryLoadData)                      \
  X(cuMemAddressFree)                       \
  X(cuMemAddressReserve)                    \
  X(cuMemAlloc)                             \
  X(cuMemAllocAsync)                        \
  X(cuMemAllocFromPoolAsync)                \
  X(cuMemAllocHost)                         \
  X(cuMemAllocManaged)                      \
  X(cuMemAllocPitch)                        \
  X(cuMemCreate)                            \
  X(cuMemExportToShareableHandle)           \
  X(cuMemFree)                              \
  X(cuMemFreeAsync)                         \
  X(cuMemFreeHost)                          \
  X(cuMemGetAccess)                         \
  X(cuMemGetAddressRange)                   \
  X(cuMemGetAllocationGranularity)          \
  X(cuMemGetAllocationPropertiesFromHandle) \
  X(cuMemGetInfo)                           \
  X(cuMemHostAlloc)                         \
  X(cuMemHostGetDevicePointer)              \
  X(cuMemHostGetFlags)                      \
  X(cuMemHostRegister)                      \
  X(cuMemHostUnregister)                    \
  X(cuMemImportFromShareableHandle)         \
  X(cuMemMap)                               \
  X(cuMemPoolCreate)                        \
  X(cuMemPoolDestroy)                       \
  X(cuMemPoolGetAccess)                     \
  X(cuMemPoolGetAttribute)                  \
  X(cuMemPoolSetAccess)                     \
  X(cuMemPoolSetAttribute)                  \
  X(cuMemPoolTrimTo)                        \
  X(cuMemRelease)                           \
  X(cuMemRetainAllocationHandle)            \
  X(cuMemSetAccess)                         \
  X(cuMemUnmap)                             \
  X(cuMemcpy)                               \
  X(cuMemcpy2D)                             \
  X(cuMemcpy3D)                             \
  X(cuMemcpyAtoD)                           \
  X(cuMemcpyAtoH)                           \
  X(cuMemcpyDtoA)                           \
  X(cuMemcpyDtoD)                           \
  X(cuMemcpyDtoDAsync)                      \
  X(cuMemcpyDtoH)                           \
  X(cuMemcpyDtoHAsync)                      \
  X(cuMemcpyHtoA)                           \
  X(cuMemcpyHtoD)                           \
  X(cuMemcpyHtoDAsync)                      \
  X(cuMemcpyPeer)                           \
  X(cuMemcpyPeerAsync)                      \
  X(cuMemsetD16)                            \
  X(cuMemsetD2D16)                          \
  X(cuMemsetD2D32)                          \
  X(cuMemsetD2D8)                           \
  X(cuMemsetD32)                            \
  X(cuMemsetD32Async)                       \
  X(cuMemsetD8)                             \
  X(cuModuleGetFunction)                    \
  X(cuModuleGetGlobal)                      \
  X(cuModuleLoadData)                       \
  X(cuModuleUnload)                         \
  X(cuPointerGetAttribute)                  \
  X(cuPointerGetAttributes)                 \
  X(cuPointerSetAttribute)                  \
  X(cuStreamBeginCapture)                   \
  X(cuStreamBeginCaptureToGraph)            \
  X(cuStreamCreate)                         \
  X(cuStreamCreateWithPriority)             \
  X(cuStreamDestroy)                        \
  X(cuStreamEndCapture)                     \
  X(cuStreamGetCtx)                         \
  X(cuStreamGetCaptureInfo)                 \
  X(cuStreamGetFlags)                       \
  X(cuStreamGetId)                          \
  X(cuStreamGetPriority)                    \
  X(cuStreamIsCapturing)                    \
  X(cuStreamQuery)                          \
  X(cuStreamSynchronize)                    \
  X(cuStreamWaitEvent)                      \
  X(cuStreamWaitValue32)                    \
  X(cuStreamWaitValue64)                    \
  X(cuStreamWriteValue32)                   \
  X(cuStreamWriteValue64)                   \
  X(cuSurfObjectCreate)                     \
  X(cuSurfObjectDestroy)                    \
  X(cuTexObjectCreate)                      \
  X(cuTexObjectDestroy)                     \
  X(cuTexObjectGetResourceDesc)             \
  X(cuThreadExchangeStreamCaptureMode)

namespace conformance {

// Thrown by a call of a function that the library lacks: the driver is older than the rule.
struct MissingFunction {
  const char* name;
};

template <typename Pointer>
class Entry;

template <typename... Parameters>
class Entry<CUresult (*)(Parameters...)> {
 public:
  CUresult operator()(Parameters... parameters) const {
    if (address_ == nullptr) throw MissingFunction{name_};
    return address_(parameters...);
  }
  void set(const char* name, void* address) {
    name_ = name;
    address_ = reinterpret_cast<CUresult (*)(Parameters...)>(address);
  }

 private:
  CUresult (*address_)(Parameters...) = nullptr;
  const char* name_ = "";
};

struct Driver {
#define CONFORMANCE_MEMBER(function) Entry<decltype(&::function)> function;
  CONFORMANCE_DRIVER_FUNCTIONS(CONFORMANCE_MEMBER)
#undef CONFORMANCE_MEMBER

  // From a shared library. Returns an error message, or an empty string.
  std::string load(const std::string& library);
};

// CUDA_SUCCESS, CUDA_ERROR_..., or the number if `cu` has no name for it.
std::string name_of(const Driver& cu, CUresult result);

}  // namespace conformance
