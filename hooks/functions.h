// SPDX-License-Identifier: Apache-2.0
// Every driver function that we stand in for, in one table; and those that we call beside them. The table is the only
// list: exports, dlsym, cuGetProcAddress and the table of real functions are made from it, and a test compares it with
// cuda.h.
//
// X(symbol, base, since, variant)
//   symbol   as the driver exports it
//   base     as cuGetProcAddress knows it
//   since    the first CUDA version that answers `base` with this symbol (cudaTypedefs.h)
//   variant  which default stream is meant, where there are two
//
// The first versions of functions that take 32-bit addresses and sizes (cuMemAlloc beside cuMemAlloc_v2) can not name
// our memory; they are left alone.
#pragma once

// clang-format off
#define THERMOCLINE_HOOKED_FUNCTIONS(X) \
  /* What the program allocates and what it asks about it. */                              \
  X(cuMemAlloc_v2, cuMemAlloc, 3020, kAny)                                                 \
  X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, kAny)                                       \
  X(cuMemFree_v2, cuMemFree, 3020, kAny)                                                   \
  X(cuMemAllocAsync, cuMemAllocAsync, 11020, kLegacy)                                      \
  X(cuMemAllocAsync_ptsz, cuMemAllocAsync, 11020, kPerThread)                              \
  X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, kLegacy)                      \
  X(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, 11020, kPerThread)              \
  X(cuMemFreeAsync, cuMemFreeAsync, 11020, kLegacy)                                        \
  X(cuMemFreeAsync_ptsz, cuMemFreeAsync, 11020, kPerThread)                                \
  X(cuMemPoolCreate, cuMemPoolCreate, 11020, kAny)                                         \
  X(cuMemGetInfo_v2, cuMemGetInfo, 3020, kAny)                                             \
  X(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020, kAny)                             \
  X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, kAny)                              \
  X(cuPointerGetAttributes, cuPointerGetAttributes, 7000, kAny)                            \
  /* The program's own mappings: they count against the budget. */                         \
  X(cuMemCreate, cuMemCreate, 10020, kAny)                                                 \
  X(cuMemRelease, cuMemRelease, 10020, kAny)                                               \
  X(cuMemMap, cuMemMap, 10020, kAny)                                                       \
  X(cuMemUnmap, cuMemUnmap, 10020, kAny)                                                   \
  /* Copies. */                                                                            \
  X(cuMemcpy, cuMemcpy, 4000, kLegacy)                                                     \
  X(cuMemcpy_ptds, cuMemcpy, 7000, kPerThread)                                             \
  X(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, kLegacy)                                          \
  X(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD, 7000, kPerThread)                                  \
  X(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, kLegacy)                                          \
  X(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH, 7000, kPerThread)                                  \
  X(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, kLegacy)                                          \
  X(cuMemcpyDtoD_v2_ptds, cuMemcpyDtoD, 7000, kPerThread)                                  \
  X(cuMemcpyDtoA_v2, cuMemcpyDtoA, 3020, kLegacy)                                          \
  X(cuMemcpyDtoA_v2_ptds, cuMemcpyDtoA, 7000, kPerThread)                                  \
  X(cuMemcpyAtoD_v2, cuMemcpyAtoD, 3020, kLegacy)                                          \
  X(cuMemcpyAtoD_v2_ptds, cuMemcpyAtoD, 7000, kPerThread)                                  \
  X(cuMemcpy2D_v2, cuMemcpy2D, 3020, kLegacy)                                              \
  X(cuMemcpy2D_v2_ptds, cuMemcpy2D, 7000, kPerThread)                                      \
  X(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned, 3020, kLegacy)                            \
  X(cuMemcpy2DUnaligned_v2_ptds, cuMemcpy2DUnaligned, 7000, kPerThread)                    \
  X(cuMemcpy3D_v2, cuMemcpy3D, 3020, kLegacy)                                              \
  X(cuMemcpy3D_v2_ptds, cuMemcpy3D, 7000, kPerThread)                                      \
  X(cuMemcpyPeer, cuMemcpyPeer, 4000, kLegacy)                                             \
  X(cuMemcpyPeer_ptds, cuMemcpyPeer, 7000, kPerThread)                                     \
  X(cuMemcpy3DPeer, cuMemcpy3DPeer, 4000, kLegacy)                                         \
  X(cuMemcpy3DPeer_ptds, cuMemcpy3DPeer, 7000, kPerThread)                                 \
  X(cuMemcpyAsync, cuMemcpyAsync, 4000, kLegacy)                                           \
  X(cuMemcpyAsync_ptsz, cuMemcpyAsync, 7000, kPerThread)                                   \
  X(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020, kLegacy)                                \
  X(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync, 7000, kPerThread)                        \
  X(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020, kLegacy)                                \
  X(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync, 7000, kPerThread)                        \
  X(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020, kLegacy)                                \
  X(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync, 7000, kPerThread)                        \
  X(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020, kLegacy)                                    \
  X(cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DAsync, 7000, kPerThread)                            \
  X(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, 3020, kLegacy)                                    \
  X(cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DAsync, 7000, kPerThread)                            \
  X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, kLegacy)                                   \
  X(cuMemcpyPeerAsync_ptsz, cuMemcpyPeerAsync, 7000, kPerThread)                           \
  X(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, 4000, kLegacy)                               \
  X(cuMemcpy3DPeerAsync_ptsz, cuMemcpy3DPeerAsync, 7000, kPerThread)                       \
  X(cuMemcpyBatchAsync, cuMemcpyBatchAsync, 12080, kLegacy)                                \
  X(cuMemcpyBatchAsync_ptsz, cuMemcpyBatchAsync, 12080, kPerThread)                        \
  X(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync, 13000, kLegacy)                             \
  X(cuMemcpyBatchAsync_v2_ptsz, cuMemcpyBatchAsync, 13000, kPerThread)                     \
  X(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync, 12080, kLegacy)                            \
  X(cuMemcpy3DBatchAsync_ptsz, cuMemcpy3DBatchAsync, 12080, kPerThread)                    \
  X(cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync, 13000, kLegacy)                         \
  X(cuMemcpy3DBatchAsync_v2_ptsz, cuMemcpy3DBatchAsync, 13000, kPerThread)                 \
  /* Sets. */                                                                              \
  X(cuMemsetD8_v2, cuMemsetD8, 3020, kLegacy)                                              \
  X(cuMemsetD8_v2_ptds, cuMemsetD8, 7000, kPerThread)                                      \
  X(cuMemsetD16_v2, cuMemsetD16, 3020, kLegacy)                                            \
  X(cuMemsetD16_v2_ptds, cuMemsetD16, 7000, kPerThread)                                    \
  X(cuMemsetD32_v2, cuMemsetD32, 3020, kLegacy)                                            \
  X(cuMemsetD32_v2_ptds, cuMemsetD32, 7000, kPerThread)                                    \
  X(cuMemsetD2D8_v2, cuMemsetD2D8, 3020, kLegacy)                                          \
  X(cuMemsetD2D8_v2_ptds, cuMemsetD2D8, 7000, kPerThread)                                  \
  X(cuMemsetD2D16_v2, cuMemsetD2D16, 3020, kLegacy)                                        \
  X(cuMemsetD2D16_v2_ptds, cuMemsetD2D16, 7000, kPerThread)                                \
  X(cuMemsetD2D32_v2, cuMemsetD2D32, 3020, kLegacy)                                        \
  X(cuMemsetD2D32_v2_ptds, cuMemsetD2D32, 7000, kPerThread)                                \
  X(cuMemsetD8Async, cuMemsetD8Async, 3020, kLegacy)                                       \
  X(cuMemsetD8Async_ptsz, cuMemsetD8Async, 7000, kPerThread)                               \
  X(cuMemsetD16Async, cuMemsetD16Async, 3020, kLegacy)                                     \
  X(cuMemsetD16Async_ptsz, cuMemsetD16Async, 7000, kPerThread)                             \
  X(cuMemsetD32Async, cuMemsetD32Async, 3020, kLegacy)                                     \
  X(cuMemsetD32Async_ptsz, cuMemsetD32Async, 7000, kPerThread)                             \
  X(cuMemsetD2D8Async, cuMemsetD2D8Async, 3020, kLegacy)                                   \
  X(cuMemsetD2D8Async_ptsz, cuMemsetD2D8Async, 7000, kPerThread)                           \
  X(cuMemsetD2D16Async, cuMemsetD2D16Async, 3020, kLegacy)                                 \
  X(cuMemsetD2D16Async_ptsz, cuMemsetD2D16Async, 7000, kPerThread)                         \
  X(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020, kLegacy)                                 \
  X(cuMemsetD2D32Async_ptsz, cuMemsetD2D32Async, 7000, kPerThread)                         \
  /* Launches, and the ends of functions. */                                               \
  X(cuLaunchKernel, cuLaunchKernel, 4000, kLegacy)                                         \
  X(cuLaunchKernel_ptsz, cuLaunchKernel, 7000, kPerThread)                                 \
  X(cuLaunchKernelEx, cuLaunchKernelEx, 11060, kLegacy)                                    \
  X(cuLaunchKernelEx_ptsz, cuLaunchKernelEx, 11060, kPerThread)                            \
  X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000, kLegacy)                   \
  X(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel, 9000, kPerThread)           \
  X(cuLaunchCooperativeKernelMultiDevice, cuLaunchCooperativeKernelMultiDevice, 9000, kAny)\
  X(cuLaunch, cuLaunch, 2000, kAny)                                                        \
  X(cuLaunchGrid, cuLaunchGrid, 2000, kAny)                                                \
  X(cuLaunchGridAsync, cuLaunchGridAsync, 2000, kAny)                                      \
  X(cuLibraryGetKernel, cuLibraryGetKernel, 12000, kAny)                                   \
  X(cuLibraryEnumerateKernels, cuLibraryEnumerateKernels, 12040, kAny)                     \
  X(cuModuleUnload, cuModuleUnload, 2000, kAny)                                            \
  X(cuLibraryUnload, cuLibraryUnload, 12000, kAny)                                         \
  /* What tells how far a stream has come, and stream capture. */                          \
  X(cuStreamSynchronize, cuStreamSynchronize, 2000, kLegacy)                               \
  X(cuStreamSynchronize_ptsz, cuStreamSynchronize, 7000, kPerThread)                       \
  X(cuStreamQuery, cuStreamQuery, 2000, kLegacy)                                           \
  X(cuStreamQuery_ptsz, cuStreamQuery, 7000, kPerThread)                                   \
  X(cuStreamDestroy, cuStreamDestroy, 2000, kAny)                                          \
  X(cuStreamDestroy_v2, cuStreamDestroy, 4000, kAny)                                       \
  X(cuCtxSynchronize, cuCtxSynchronize, 2000, kAny)                                        \
  X(cuCtxSynchronize_v2, cuCtxSynchronize, 13000, kAny)                                    \
  X(cuStreamBeginCapture, cuStreamBeginCapture, 10000, kLegacy)                            \
  X(cuStreamBeginCapture_ptsz, cuStreamBeginCapture, 10000, kPerThread)                    \
  X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, kLegacy)                         \
  X(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture, 10010, kPerThread)                 \
  X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030, kLegacy)              \
  X(cuStreamBeginCaptureToGraph_ptsz, cuStreamBeginCaptureToGraph, 12030, kPerThread)      \
  X(cuStreamEndCapture, cuStreamEndCapture, 10000, kLegacy)                                \
  X(cuStreamEndCapture_ptsz, cuStreamEndCapture, 10000, kPerThread)                        \
  /* Other work that is given addresses. */                                                \
  X(cuStreamWriteValue32_v2, cuStreamWriteValue32, 11070, kLegacy)                         \
  X(cuStreamWriteValue32_v2_ptsz, cuStreamWriteValue32, 11070, kPerThread)                 \
  X(cuStreamWriteValue64_v2, cuStreamWriteValue64, 11070, kLegacy)                         \
  X(cuStreamWriteValue64_v2_ptsz, cuStreamWriteValue64, 11070, kPerThread)                 \
  X(cuStreamWaitValue32_v2, cuStreamWaitValue32, 11070, kLegacy)                           \
  X(cuStreamWaitValue32_v2_ptsz, cuStreamWaitValue32, 11070, kPerThread)                   \
  X(cuStreamWaitValue64_v2, cuStreamWaitValue64, 11070, kLegacy)                           \
  X(cuStreamWaitValue64_v2_ptsz, cuStreamWaitValue64, 11070, kPerThread)                   \
  X(cuStreamBatchMemOp_v2, cuStreamBatchMemOp, 11070, kLegacy)                             \
  X(cuStreamBatchMemOp_v2_ptsz, cuStreamBatchMemOp, 11070, kPerThread)                     \
  X(cuStreamWriteValue32, cuStreamWriteValue32, 8000, kLegacy)                             \
  X(cuStreamWriteValue32_ptsz, cuStreamWriteValue32, 8000, kPerThread)                     \
  X(cuStreamWriteValue64, cuStreamWriteValue64, 9000, kLegacy)                             \
  X(cuStreamWriteValue64_ptsz, cuStreamWriteValue64, 9000, kPerThread)                     \
  X(cuStreamWaitValue32, cuStreamWaitValue32, 8000, kLegacy)                               \
  X(cuStreamWaitValue32_ptsz, cuStreamWaitValue32, 8000, kPerThread)                       \
  X(cuStreamWaitValue64, cuStreamWaitValue64, 9000, kLegacy)                               \
  X(cuStreamWaitValue64_ptsz, cuStreamWaitValue64, 9000, kPerThread)                       \
  X(cuStreamBatchMemOp, cuStreamBatchMemOp, 8000, kLegacy)                                 \
  X(cuStreamBatchMemOp_ptsz, cuStreamBatchMemOp, 8000, kPerThread)                         \
  X(cuMemBatchDecompressAsync, cuMemBatchDecompressAsync, 12060, kLegacy)                  \
  X(cuMemBatchDecompressAsync_ptsz, cuMemBatchDecompressAsync, 12060, kPerThread)          \
  /* The life of a context. */                                                             \
  X(cuCtxDestroy, cuCtxDestroy, 2000, kAny)                                                \
  X(cuCtxDestroy_v2, cuCtxDestroy, 4000, kAny)                                             \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, kAny)                        \
  X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, kAny)                      \
  X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, kAny)                  \
  X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, kAny)                          \
  X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, kAny)                      \
  /* Graphs: nodes that name addresses, and launches. */                                   \
  X(cuGraphAddKernelNode, cuGraphAddKernelNode, 10000, kAny)                               \
  X(cuGraphAddKernelNode_v2, cuGraphAddKernelNode, 12000, kAny)                            \
  X(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams, 10000, kAny)                   \
  X(cuGraphKernelNodeSetParams_v2, cuGraphKernelNodeSetParams, 12000, kAny)                \
  X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams, 10010, kAny)           \
  X(cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams, 12000, kAny)        \
  X(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000, kAny)                               \
  X(cuGraphMemcpyNodeSetParams, cuGraphMemcpyNodeSetParams, 10000, kAny)                   \
  X(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, 10020, kAny)           \
  X(cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000, kAny)                               \
  X(cuGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams, 10000, kAny)                   \
  X(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, 10020, kAny)           \
  X(cuGraphAddBatchMemOpNode, cuGraphAddBatchMemOpNode, 11070, kAny)                       \
  X(cuGraphBatchMemOpNodeSetParams, cuGraphBatchMemOpNodeSetParams, 11070, kAny)           \
  X(cuGraphExecBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams, 11070, kAny)   \
  X(cuGraphAddNode, cuGraphAddNode, 12020, kAny)                                           \
  X(cuGraphAddNode_v2, cuGraphAddNode, 12030, kAny)                                        \
  X(cuGraphNodeSetParams, cuGraphNodeSetParams, 12020, kAny)                               \
  X(cuGraphExecNodeSetParams, cuGraphExecNodeSetParams, 12020, kAny)                       \
  X(cuGraphLaunch, cuGraphLaunch, 10000, kLegacy)                                          \
  X(cuGraphLaunch_ptsz, cuGraphLaunch, 10000, kPerThread)                                  \
  /* Calls that let somebody else keep an address: the buffer stays on the device. */      \
  X(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, kAny)                                      \
  X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000, kAny)                 \
  X(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange, 11070, kAny)             \
  X(cuPointerSetAttribute, cuPointerSetAttribute, 6000, kAny)                              \
  X(cuTexObjectCreate, cuTexObjectCreate, 5000, kAny)                                      \
  X(cuTexRefSetAddress_v2, cuTexRefSetAddress, 3020, kAny)                                 \
  X(cuTexRefSetAddress2D_v2, cuTexRefSetAddress2D, 3020, kAny)                             \
  X(cuTexRefSetAddress2D_v3, cuTexRefSetAddress2D, 4010, kAny)                             \
  X(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled, 12000, kAny)                           \
  X(cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2col, 12000, kAny)                         \
  X(cuTensorMapEncodeIm2colWide, cuTensorMapEncodeIm2colWide, 12080, kAny)                 \
  X(cuTensorMapReplaceAddress, cuTensorMapReplaceAddress, 12000, kAny)                     \
  X(cuMulticastBindAddr, cuMulticastBindAddr, 12010, kAny)                                 \
  /* How programs find the functions above. */                                             \
  X(cuGetProcAddress, cuGetProcAddress, 11030, kAny)                                       \
  X(cuGetProcAddress_v2, cuGetProcAddress, 12000, kAny)

// Called for our own ends, and never answered with a hook.
#define THERMOCLINE_CALLED_FUNCTIONS(X) \
  X(cuCtxGetCurrent)                    \
  X(cuCtxGetDevice)                     \
  X(cuCtxPopCurrent_v2)                 \
  X(cuCtxPushCurrent_v2)                \
  X(cuDeviceGetMemPool)                 \
  X(cuDevicePrimaryCtxGetState)         \
  X(cuDeviceTotalMem_v2)                \
  X(cuFuncGetName)                      \
  X(cuFuncGetParamInfo)                 \
  X(cuKernelGetName)                    \
  X(cuKernelGetParamInfo)               \
  X(cuLibraryGetKernelCount)            \
  X(cuStreamIsCapturing)                \
  X(cuThreadExchangeStreamCaptureMode)
// clang-format on
