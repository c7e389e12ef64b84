// SPDX-License-Identifier: Apache-2.0
// Every function of cuda.h, 12.0 to 13.5, in one table: functions that are hooked, functions that the library calls,
// and functions that are passed to the driver unchanged; each with its effect on device memory, or the reason why it
// needs no hook. Exports, dlsym, cuGetProcAddress and the table of real functions are generated from it. A test
// compares it with the installed cuda.h and cudaTypedefs.h, version by version and variant by variant, so that a new
// CUDA can not add an API path unnoticed. Functions of a newer driver that a program looks up are counted
// (proc_address.cc).
//
// Hooked: X(symbol, base, since, variant, does)
//   symbol   the name that the driver exports
//   base     the name that cuGetProcAddress knows
//   since    the first CUDA version in which `base` resolves to this symbol (cudaTypedefs.h)
//   variant  which default stream is meant, if there are two variants
//   does     verbs, each with the parameters it applies to: gives, frees, maps, asks, reads, writes, accesses (reads or
//            writes), keeps (somebody may use it at any later time), names, forgets, waits, records (a stream
//            captures), ends, counts (in statistics), finds, tells, makes (allocates the driver's own device memory);
//            "on" names the stream, and code reads it (symbols.h); "behind" whose work it waits for
// Called: X(symbol)
// Passed: X(why, symbols): exactly these symbols and their per-thread variants, and no other version of them.
//
// Symbols newer than the oldest supported cuda.h are declared in newer_functions.h.
#pragma once

// clang-format off
#define THERMOCLINE_HOOKED_FUNCTIONS(X) \
  /* Allocations, and queries about them. */ \
  X(cuMemAlloc_v2, cuMemAlloc, 3020, kAny, "gives dptr") \
  X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, kAny, "gives dptr") \
  X(cuMemFree_v2, cuMemFree, 3020, kAny, "frees dptr; behind all streams") \
  X(cuMemAllocAsync, cuMemAllocAsync, 11020, kLegacy, "gives dptr; on hStream") \
  X(cuMemAllocAsync_ptsz, cuMemAllocAsync, 11020, kPerThread, "gives dptr; on hStream") \
  X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, kLegacy, "gives dptr; on hStream") \
  X(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, 11020, kPerThread, "gives dptr; on hStream") \
  X(cuMemFreeAsync, cuMemFreeAsync, 11020, kLegacy, "frees dptr; on hStream") \
  X(cuMemFreeAsync_ptsz, cuMemFreeAsync, 11020, kPerThread, "frees dptr; on hStream") \
  X(cuMemPoolCreate, cuMemPoolCreate, 11020, kAny, "tells whose memory of pool is") \
  X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, kAny, "asks pool") \
  X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, kAny, "tells what pool is to keep") \
  X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, kAny, "tells what pool is to keep") \
  X(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020, kAny, "tells where memory in stream order comes from") \
  X(cuMemSetMemPool, cuMemSetMemPool, 13000, kAny, "tells where memory in stream order comes from") \
  X(cuArrayCreate_v2, cuArrayCreate, 3020, kAny, "gives pHandle; counted") \
  X(cuArray3DCreate_v2, cuArray3DCreate, 3020, kAny, "gives pHandle; counted") \
  X(cuArrayDestroy, cuArrayDestroy, 2000, kAny, "frees hArray; counted") \
  X(cuMemPoolSetAccess, cuMemPoolSetAccess, 11020, kAny, "tells who may use pool's memory") \
  X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, kAny, "tells who may use peerContext's memory") \
  X(cuMemGetInfo_v2, cuMemGetInfo, 3020, kAny, "asks") \
  X(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020, kAny, "asks dptr") \
  X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, kAny, "asks ptr") \
  X(cuPointerGetAttributes, cuPointerGetAttributes, 7000, kAny, "asks ptr") \
  /* Memory of the host, which kernels may read in place. */ \
  X(cuMemAllocHost_v2, cuMemAllocHost, 3020, kAny, "tells where tables may be") \
  X(cuMemHostAlloc, cuMemHostAlloc, 2020, kAny, "tells where tables may be") \
  X(cuMemHostRegister, cuMemHostRegister, 4000, kAny, "tells where tables may be") \
  X(cuMemHostRegister_v2, cuMemHostRegister, 6050, kAny, "tells where tables may be") \
  X(cuMemFreeHost, cuMemFreeHost, 2000, kAny, "forgets p") \
  X(cuMemHostUnregister, cuMemHostUnregister, 4000, kAny, "forgets p") \
  /* The program's own mappings: they count against the budget. */ \
  X(cuMemCreate, cuMemCreate, 10020, kAny, "gives handle; counted") \
  X(cuMemRelease, cuMemRelease, 10020, kAny, "frees handle; counted") \
  X(cuMemMap, cuMemMap, 10020, kAny, "maps ptr; counted") \
  X(cuMemUnmap, cuMemUnmap, 10020, kAny, "frees ptr; counted") \
  /* Copies. */ \
  X(cuMemcpy, cuMemcpy, 4000, kLegacy, "reads src; writes dst; on the default stream") \
  X(cuMemcpy_ptds, cuMemcpy, 7000, kPerThread, "reads src; writes dst; on the default stream") \
  X(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, kLegacy, "reads srcHost; writes dstDevice; on the default stream") \
  X(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD, 7000, kPerThread, "reads srcHost; writes dstDevice; on the default stream") \
  X(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, kLegacy, "reads srcDevice; writes dstHost; on the default stream") \
  X(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH, 7000, kPerThread, "reads srcDevice; writes dstHost; on the default stream") \
  X(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, kLegacy, "reads srcDevice; writes dstDevice; on the default stream") \
  X(cuMemcpyDtoD_v2_ptds, cuMemcpyDtoD, 7000, kPerThread, "reads srcDevice; writes dstDevice; on the default stream") \
  X(cuMemcpyDtoA_v2, cuMemcpyDtoA, 3020, kLegacy, "reads srcDevice; on the default stream") \
  X(cuMemcpyDtoA_v2_ptds, cuMemcpyDtoA, 7000, kPerThread, "reads srcDevice; on the default stream") \
  X(cuMemcpyAtoD_v2, cuMemcpyAtoD, 3020, kLegacy, "writes dstDevice; on the default stream") \
  X(cuMemcpyAtoD_v2_ptds, cuMemcpyAtoD, 7000, kPerThread, "writes dstDevice; on the default stream") \
  X(cuMemcpy2D_v2, cuMemcpy2D, 3020, kLegacy, "reads pCopy; writes pCopy; on the default stream") \
  X(cuMemcpy2D_v2_ptds, cuMemcpy2D, 7000, kPerThread, "reads pCopy; writes pCopy; on the default stream") \
  X(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned, 3020, kLegacy, "reads pCopy; writes pCopy; on the default stream") \
  X(cuMemcpy2DUnaligned_v2_ptds, cuMemcpy2DUnaligned, 7000, kPerThread, "reads pCopy; writes pCopy; on the default stream") \
  X(cuMemcpy3D_v2, cuMemcpy3D, 3020, kLegacy, "reads pCopy; writes pCopy; on the default stream") \
  X(cuMemcpy3D_v2_ptds, cuMemcpy3D, 7000, kPerThread, "reads pCopy; writes pCopy; on the default stream") \
  X(cuMemcpyPeer, cuMemcpyPeer, 4000, kLegacy, "reads srcDevice; writes dstDevice; on the default stream") \
  X(cuMemcpyPeer_ptds, cuMemcpyPeer, 7000, kPerThread, "reads srcDevice; writes dstDevice; on the default stream") \
  X(cuMemcpy3DPeer, cuMemcpy3DPeer, 4000, kLegacy, "reads pCopy; writes pCopy; on the default stream") \
  X(cuMemcpy3DPeer_ptds, cuMemcpy3DPeer, 7000, kPerThread, "reads pCopy; writes pCopy; on the default stream") \
  X(cuMemcpyAsync, cuMemcpyAsync, 4000, kLegacy, "reads src; writes dst; on hStream") \
  X(cuMemcpyAsync_ptsz, cuMemcpyAsync, 7000, kPerThread, "reads src; writes dst; on hStream") \
  X(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020, kLegacy, "reads srcHost; writes dstDevice; on hStream") \
  X(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync, 7000, kPerThread, "reads srcHost; writes dstDevice; on hStream") \
  X(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020, kLegacy, "reads srcDevice; writes dstHost; on hStream") \
  X(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync, 7000, kPerThread, "reads srcDevice; writes dstHost; on hStream") \
  X(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020, kLegacy, "reads srcDevice; writes dstDevice; on hStream") \
  X(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync, 7000, kPerThread, "reads srcDevice; writes dstDevice; on hStream") \
  X(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020, kLegacy, "reads pCopy; writes pCopy; on hStream") \
  X(cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DAsync, 7000, kPerThread, "reads pCopy; writes pCopy; on hStream") \
  X(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, 3020, kLegacy, "reads pCopy; writes pCopy; on hStream") \
  X(cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DAsync, 7000, kPerThread, "reads pCopy; writes pCopy; on hStream") \
  X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, kLegacy, "reads srcDevice; writes dstDevice; on hStream") \
  X(cuMemcpyPeerAsync_ptsz, cuMemcpyPeerAsync, 7000, kPerThread, "reads srcDevice; writes dstDevice; on hStream") \
  X(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, 4000, kLegacy, "reads pCopy; writes pCopy; on hStream") \
  X(cuMemcpy3DPeerAsync_ptsz, cuMemcpy3DPeerAsync, 7000, kPerThread, "reads pCopy; writes pCopy; on hStream") \
  X(cuMemcpyBatchAsync, cuMemcpyBatchAsync, 12080, kLegacy, "reads srcs; writes dsts; on hStream") \
  X(cuMemcpyBatchAsync_ptsz, cuMemcpyBatchAsync, 12080, kPerThread, "reads srcs; writes dsts; on hStream") \
  X(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync, 13000, kLegacy, "reads srcs; writes dsts; on hStream") \
  X(cuMemcpyBatchAsync_v2_ptsz, cuMemcpyBatchAsync, 13000, kPerThread, "reads srcs; writes dsts; on hStream") \
  X(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync, 12080, kLegacy, "reads opList; writes opList; on hStream") \
  X(cuMemcpy3DBatchAsync_ptsz, cuMemcpy3DBatchAsync, 12080, kPerThread, "reads opList; writes opList; on hStream") \
  X(cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync, 13000, kLegacy, "reads opList; writes opList; on hStream") \
  X(cuMemcpy3DBatchAsync_v2_ptsz, cuMemcpy3DBatchAsync, 13000, kPerThread, "reads opList; writes opList; on hStream") \
  X(cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync, 13020, kLegacy, "reads src; writes dst; on hStream") \
  X(cuMemcpyWithAttributesAsync_ptsz, cuMemcpyWithAttributesAsync, 13020, kPerThread, "reads src; writes dst; on hStream") \
  X(cuMemcpy3DWithAttributesAsync, cuMemcpy3DWithAttributesAsync, 13020, kLegacy, "reads op; writes op; on hStream") \
  X(cuMemcpy3DWithAttributesAsync_ptsz, cuMemcpy3DWithAttributesAsync, 13020, kPerThread, "reads op; writes op; on hStream") \
  X(cuFabricCpyBatchAsync, cuFabricCpyBatchAsync, 13050, kLegacy, "reads opList; writes opList; on hStream") \
  X(cuFabricCpyBatchAsync_ptsz, cuFabricCpyBatchAsync, 13050, kPerThread, "reads opList; writes opList; on hStream") \
  /* Sets. */ \
  X(cuMemsetD8_v2, cuMemsetD8, 3020, kLegacy, "writes dstDevice; on the default stream") \
  X(cuMemsetD8_v2_ptds, cuMemsetD8, 7000, kPerThread, "writes dstDevice; on the default stream") \
  X(cuMemsetD16_v2, cuMemsetD16, 3020, kLegacy, "writes dstDevice; on the default stream") \
  X(cuMemsetD16_v2_ptds, cuMemsetD16, 7000, kPerThread, "writes dstDevice; on the default stream") \
  X(cuMemsetD32_v2, cuMemsetD32, 3020, kLegacy, "writes dstDevice; on the default stream") \
  X(cuMemsetD32_v2_ptds, cuMemsetD32, 7000, kPerThread, "writes dstDevice; on the default stream") \
  X(cuMemsetD2D8_v2, cuMemsetD2D8, 3020, kLegacy, "writes dstDevice; on the default stream") \
  X(cuMemsetD2D8_v2_ptds, cuMemsetD2D8, 7000, kPerThread, "writes dstDevice; on the default stream") \
  X(cuMemsetD2D16_v2, cuMemsetD2D16, 3020, kLegacy, "writes dstDevice; on the default stream") \
  X(cuMemsetD2D16_v2_ptds, cuMemsetD2D16, 7000, kPerThread, "writes dstDevice; on the default stream") \
  X(cuMemsetD2D32_v2, cuMemsetD2D32, 3020, kLegacy, "writes dstDevice; on the default stream") \
  X(cuMemsetD2D32_v2_ptds, cuMemsetD2D32, 7000, kPerThread, "writes dstDevice; on the default stream") \
  X(cuMemsetD8Async, cuMemsetD8Async, 3020, kLegacy, "writes dstDevice; on hStream") \
  X(cuMemsetD8Async_ptsz, cuMemsetD8Async, 7000, kPerThread, "writes dstDevice; on hStream") \
  X(cuMemsetD16Async, cuMemsetD16Async, 3020, kLegacy, "writes dstDevice; on hStream") \
  X(cuMemsetD16Async_ptsz, cuMemsetD16Async, 7000, kPerThread, "writes dstDevice; on hStream") \
  X(cuMemsetD32Async, cuMemsetD32Async, 3020, kLegacy, "writes dstDevice; on hStream") \
  X(cuMemsetD32Async_ptsz, cuMemsetD32Async, 7000, kPerThread, "writes dstDevice; on hStream") \
  X(cuMemsetD2D8Async, cuMemsetD2D8Async, 3020, kLegacy, "writes dstDevice; on hStream") \
  X(cuMemsetD2D8Async_ptsz, cuMemsetD2D8Async, 7000, kPerThread, "writes dstDevice; on hStream") \
  X(cuMemsetD2D16Async, cuMemsetD2D16Async, 3020, kLegacy, "writes dstDevice; on hStream") \
  X(cuMemsetD2D16Async_ptsz, cuMemsetD2D16Async, 7000, kPerThread, "writes dstDevice; on hStream") \
  X(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020, kLegacy, "writes dstDevice; on hStream") \
  X(cuMemsetD2D32Async_ptsz, cuMemsetD2D32Async, 7000, kPerThread, "writes dstDevice; on hStream") \
  /* Launches, and unloading of functions. */ \
  X(cuLaunchKernel, cuLaunchKernel, 4000, kLegacy, "accesses kernelParams, extra; on hStream") \
  X(cuLaunchKernel_ptsz, cuLaunchKernel, 7000, kPerThread, "accesses kernelParams, extra; on hStream") \
  X(cuLaunchKernelEx, cuLaunchKernelEx, 11060, kLegacy, "accesses kernelParams, extra; on config") \
  X(cuLaunchKernelEx_ptsz, cuLaunchKernelEx, 11060, kPerThread, "accesses kernelParams, extra; on config") \
  X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000, kLegacy, "accesses kernelParams; on hStream") \
  X(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel, 9000, kPerThread, "accesses kernelParams; on hStream") \
  X(cuLaunchCooperativeKernelMultiDevice, cuLaunchCooperativeKernelMultiDevice, 9000, kAny, "accesses launchParamsList; on launchParamsList") \
  X(cuLaunch, cuLaunch, 2000, kAny, "accesses everything") \
  X(cuLaunchGrid, cuLaunchGrid, 2000, kAny, "accesses everything") \
  X(cuLaunchGridAsync, cuLaunchGridAsync, 2000, kAny, "accesses everything; on hStream") \
  X(cuLibraryGetKernel, cuLibraryGetKernel, 12000, kAny, "names pKernel") \
  X(cuLibraryEnumerateKernels, cuLibraryEnumerateKernels, 12040, kAny, "names kernels") \
  X(cuModuleUnload, cuModuleUnload, 2000, kAny, "forgets hmod") \
  X(cuLibraryUnload, cuLibraryUnload, 12000, kAny, "forgets library") \
  /* Calls that reveal the progress of a stream, and stream capture. */ \
  X(cuStreamSynchronize, cuStreamSynchronize, 2000, kLegacy, "waits hStream") \
  X(cuStreamSynchronize_ptsz, cuStreamSynchronize, 7000, kPerThread, "waits hStream") \
  X(cuStreamQuery, cuStreamQuery, 2000, kLegacy, "asks hStream") \
  X(cuStreamQuery_ptsz, cuStreamQuery, 7000, kPerThread, "asks hStream") \
  X(cuStreamWaitEvent, cuStreamWaitEvent, 3020, kLegacy, "tells what hStream comes behind; on hStream") \
  X(cuStreamWaitEvent_ptsz, cuStreamWaitEvent, 7000, kPerThread, "tells what hStream comes behind; on hStream") \
  X(cuEventRecord, cuEventRecord, 2000, kLegacy, "on hStream") \
  X(cuEventRecord_ptsz, cuEventRecord, 7000, kPerThread, "on hStream") \
  X(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010, kLegacy, "on hStream") \
  X(cuEventRecordWithFlags_ptsz, cuEventRecordWithFlags, 11010, kPerThread, "on hStream") \
  X(cuLaunchHostFunc, cuLaunchHostFunc, 10000, kLegacy, "on hStream") \
  X(cuLaunchHostFunc_ptsz, cuLaunchHostFunc, 10000, kPerThread, "on hStream") \
  X(cuLaunchHostFunc_v2, cuLaunchHostFunc, 13010, kLegacy, "on hStream") \
  X(cuLaunchHostFunc_v2_ptsz, cuLaunchHostFunc, 13010, kPerThread, "on hStream") \
  X(cuStreamAddCallback, cuStreamAddCallback, 5000, kLegacy, "on hStream") \
  X(cuStreamAddCallback_ptsz, cuStreamAddCallback, 7000, kPerThread, "on hStream") \
  X(cuWaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync, 10000, kLegacy, "on stream") \
  X(cuWaitExternalSemaphoresAsync_ptsz, cuWaitExternalSemaphoresAsync, 10000, kPerThread, "on stream") \
  X(cuStreamDestroy, cuStreamDestroy, 2000, kAny, "ends hStream") \
  X(cuStreamDestroy_v2, cuStreamDestroy, 4000, kAny, "ends hStream") \
  X(cuCtxSynchronize, cuCtxSynchronize, 2000, kAny, "waits for every stream") \
  X(cuCtxSynchronize_v2, cuCtxSynchronize, 13000, kAny, "waits for every stream") \
  X(cuStreamBeginCapture, cuStreamBeginCapture, 10000, kLegacy, "records hStream") \
  X(cuStreamBeginCapture_ptsz, cuStreamBeginCapture, 10000, kPerThread, "records hStream") \
  X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, kLegacy, "records hStream") \
  X(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture, 10010, kPerThread, "records hStream") \
  X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030, kLegacy, "records hStream") \
  X(cuStreamBeginCaptureToGraph_ptsz, cuStreamBeginCaptureToGraph, 12030, kPerThread, "records hStream") \
  X(cuStreamBeginRecaptureToGraph, cuStreamBeginRecaptureToGraph, 13030, kLegacy, "records hStream") \
  X(cuStreamBeginRecaptureToGraph_ptsz, cuStreamBeginRecaptureToGraph, 13030, kPerThread, "records hStream") \
  X(cuStreamBeginCaptureToCig, cuStreamBeginCaptureToCig, 13010, kLegacy, "records hStream") \
  X(cuStreamBeginCaptureToCig_ptsz, cuStreamBeginCaptureToCig, 13010, kPerThread, "records hStream") \
  X(cuStreamEndCapture, cuStreamEndCapture, 10000, kLegacy, "records hStream no more") \
  X(cuStreamEndCapture_ptsz, cuStreamEndCapture, 10000, kPerThread, "records hStream no more") \
  X(cuStreamEndCaptureToCig, cuStreamEndCaptureToCig, 13010, kLegacy, "records hStream no more") \
  X(cuStreamEndCaptureToCig_ptsz, cuStreamEndCaptureToCig, 13010, kPerThread, "records hStream no more") \
  /* Other work that is given addresses. */ \
  X(cuStreamWriteValue32_v2, cuStreamWriteValue32, 11070, kLegacy, "writes addr; on stream") \
  X(cuStreamWriteValue32_v2_ptsz, cuStreamWriteValue32, 11070, kPerThread, "writes addr; on stream") \
  X(cuStreamWriteValue64_v2, cuStreamWriteValue64, 11070, kLegacy, "writes addr; on stream") \
  X(cuStreamWriteValue64_v2_ptsz, cuStreamWriteValue64, 11070, kPerThread, "writes addr; on stream") \
  X(cuStreamWaitValue32_v2, cuStreamWaitValue32, 11070, kLegacy, "reads addr; on stream") \
  X(cuStreamWaitValue32_v2_ptsz, cuStreamWaitValue32, 11070, kPerThread, "reads addr; on stream") \
  X(cuStreamWaitValue64_v2, cuStreamWaitValue64, 11070, kLegacy, "reads addr; on stream") \
  X(cuStreamWaitValue64_v2_ptsz, cuStreamWaitValue64, 11070, kPerThread, "reads addr; on stream") \
  X(cuStreamBatchMemOp_v2, cuStreamBatchMemOp, 11070, kLegacy, "accesses paramArray; on stream") \
  X(cuStreamBatchMemOp_v2_ptsz, cuStreamBatchMemOp, 11070, kPerThread, "accesses paramArray; on stream") \
  X(cuStreamWriteValue32, cuStreamWriteValue32, 8000, kLegacy, "writes addr; on stream") \
  X(cuStreamWriteValue32_ptsz, cuStreamWriteValue32, 8000, kPerThread, "writes addr; on stream") \
  X(cuStreamWriteValue64, cuStreamWriteValue64, 9000, kLegacy, "writes addr; on stream") \
  X(cuStreamWriteValue64_ptsz, cuStreamWriteValue64, 9000, kPerThread, "writes addr; on stream") \
  X(cuStreamWaitValue32, cuStreamWaitValue32, 8000, kLegacy, "reads addr; on stream") \
  X(cuStreamWaitValue32_ptsz, cuStreamWaitValue32, 8000, kPerThread, "reads addr; on stream") \
  X(cuStreamWaitValue64, cuStreamWaitValue64, 9000, kLegacy, "reads addr; on stream") \
  X(cuStreamWaitValue64_ptsz, cuStreamWaitValue64, 9000, kPerThread, "reads addr; on stream") \
  X(cuStreamBatchMemOp, cuStreamBatchMemOp, 8000, kLegacy, "accesses paramArray; on stream") \
  X(cuStreamBatchMemOp_ptsz, cuStreamBatchMemOp, 8000, kPerThread, "accesses paramArray; on stream") \
  X(cuMemBatchDecompressAsync, cuMemBatchDecompressAsync, 12060, kLegacy, "accesses paramsArray; on stream") \
  X(cuMemBatchDecompressAsync_ptsz, cuMemBatchDecompressAsync, 12060, kPerThread, "accesses paramsArray; on stream") \
  /* The life of a context. */ \
  X(cuCtxDestroy, cuCtxDestroy, 2000, kAny, "ends ctx") \
  X(cuCtxDestroy_v2, cuCtxDestroy, 4000, kAny, "ends ctx") \
  X(cuCtxAttach, cuCtxAttach, 2000, kAny, "counts pctx") \
  X(cuCtxDetach, cuCtxDetach, 2000, kAny, "ends ctx") \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, kAny, "counts dev") \
  X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, kAny, "ends dev, when it was the last") \
  X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, kAny, "ends dev, when it was the last") \
  X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, kAny, "ends dev") \
  X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, kAny, "ends dev") \
  X(cuGreenCtxCreate, cuGreenCtxCreate, 12040, kAny, "counts dev") \
  X(cuGreenCtxDestroy, cuGreenCtxDestroy, 12040, kAny, "ends hCtx, and its device's primary context, when it was the last") \
  /* Graphs: nodes that name addresses, and launches. */ \
  X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams, 10010, kAny, "names nodeParams") \
  X(cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams, 12000, kAny, "names nodeParams") \
  X(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000, kAny, "names copyParams") \
  X(cuGraphMemcpyNodeSetParams, cuGraphMemcpyNodeSetParams, 10000, kAny, "names nodeParams") \
  X(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, 10020, kAny, "names copyParams") \
  X(cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000, kAny, "names memsetParams") \
  X(cuGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams, 10000, kAny, "names nodeParams") \
  X(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, 10020, kAny, "names memsetParams") \
  X(cuGraphAddBatchMemOpNode, cuGraphAddBatchMemOpNode, 11070, kAny, "names nodeParams") \
  X(cuGraphBatchMemOpNodeSetParams, cuGraphBatchMemOpNodeSetParams, 11070, kAny, "names nodeParams") \
  X(cuGraphExecBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams, 11070, kAny, "names nodeParams") \
  X(cuGraphAddNode, cuGraphAddNode, 12020, kAny, "names nodeParams") \
  X(cuGraphAddNode_v2, cuGraphAddNode, 12030, kAny, "names nodeParams") \
  X(cuGraphAddNode_v3, cuGraphAddNode, 13040, kAny, "names nodeParams") \
  X(cuGraphNodeSetParams, cuGraphNodeSetParams, 12020, kAny, "names nodeParams") \
  X(cuGraphNodeSetParams_v2, cuGraphNodeSetParams, 13040, kAny, "names nodeParams") \
  X(cuGraphExecNodeSetParams, cuGraphExecNodeSetParams, 12020, kAny, "names nodeParams") \
  X(cuGraphKernelNodeSetAttribute, cuGraphKernelNodeSetAttribute, 11000, kAny, "tells whether the device changes hNode") \
  X(cuGraphExecEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent, 11010, kAny, "tells what hNode has to do with") \
  X(cuGraphExecEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent, 11010, kAny, "tells what hNode has to do with") \
  X(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 11040, kAny, "tells that launches take memory; counted") \
  X(cuGraphInstantiate, cuGraphInstantiate, 10000, kAny, "tells what hGraph names") \
  X(cuGraphInstantiate_v2, cuGraphInstantiate, 11000, kAny, "tells what hGraph names") \
  X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, kAny, "tells what hGraph names") \
  X(cuGraphExecUpdate, cuGraphExecUpdate, 10020, kAny, "tells what hGraph names") \
  X(cuGraphExecUpdate_v2, cuGraphExecUpdate, 12000, kAny, "tells what hGraph names") \
  X(cuGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams, 11010, kAny, "tells what childGraph names") \
  X(cuGraphNodeSetEnabled, cuGraphNodeSetEnabled, 11060, kAny, "tells whether hNode runs") \
  X(cuGraphExecDestroy, cuGraphExecDestroy, 10000, kAny, "forgets hGraphExec") \
  X(cuGraphDestroy, cuGraphDestroy, 10000, kAny, "forgets hGraph") \
  X(cuGraphDestroyNode, cuGraphDestroyNode, 10000, kAny, "forgets hNode") \
  X(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, 12000, kLegacy, "counts what the driver takes; on hUploadStream") \
  X(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams, 12000, kPerThread, "counts what the driver takes; on hUploadStream") \
  X(cuGraphUpload, cuGraphUpload, 11010, kLegacy, "counts what the driver takes; on hStream") \
  X(cuGraphUpload_ptsz, cuGraphUpload, 11010, kPerThread, "counts what the driver takes; on hStream") \
  X(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 11040, kAny, "counts what the driver has left") \
  X(cuGraphLaunch, cuGraphLaunch, 10000, kLegacy, "accesses what hGraphExec names; on hStream") \
  X(cuGraphLaunch_ptsz, cuGraphLaunch, 10000, kPerThread, "accesses what hGraphExec names; on hStream") \
  /* Calls that let others keep an address: the buffer stays on the device. */ \
  X(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, kAny, "keeps dptr") \
  X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000, kAny, "keeps addr") \
  X(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange, 11070, kAny, "keeps dptr") \
  X(cuPointerSetAttribute, cuPointerSetAttribute, 6000, kAny, "keeps ptr") \
  X(cuTexObjectCreate, cuTexObjectCreate, 5000, kAny, "keeps pResDesc") \
  X(cuTexObjectDestroy, cuTexObjectDestroy, 5000, kAny, "waits for frees that could not wait") \
  X(cuTexRefSetAddress_v2, cuTexRefSetAddress, 3020, kAny, "keeps dptr") \
  X(cuTexRefSetAddress2D_v2, cuTexRefSetAddress2D, 3020, kAny, "keeps dptr") \
  X(cuTexRefSetAddress2D_v3, cuTexRefSetAddress2D, 4010, kAny, "keeps dptr") \
  X(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled, 12000, kAny, "names globalAddress") \
  X(cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2col, 12000, kAny, "names globalAddress") \
  X(cuTensorMapEncodeIm2colWide, cuTensorMapEncodeIm2colWide, 12080, kAny, "names globalAddress") \
  X(cuTensorMapReplaceAddress, cuTensorMapReplaceAddress, 12000, kAny, "names globalAddress") \
  X(cuTensorMapSetAllocationClass, cuTensorMapSetAllocationClass, 13050, kAny, "names tensorMap's address anew") \
  X(cuMulticastBindAddr, cuMulticastBindAddr, 12010, kAny, "keeps memptr") \
  X(cuMulticastBindAddr_v2, cuMulticastBindAddr, 13010, kAny, "keeps memptr") \
  X(cuLogicalEndpointBindAddr, cuLogicalEndpointBindAddr, 13030, kAny, "keeps ptr") \
  /* The driver allocates device memory of its own for these; if it fails, they are repeated with more room. */ \
  X(cuModuleLoad, cuModuleLoad, 2000, kAny, "makes module, with room") \
  X(cuModuleLoadData, cuModuleLoadData, 2000, kAny, "makes module, with room") \
  X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, kAny, "makes module, with room") \
  X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000, kAny, "makes module, with room") \
  X(cuModuleGetFunction, cuModuleGetFunction, 2000, kAny, "makes hfunc, with room") \
  X(cuModuleGetGlobal_v2, cuModuleGetGlobal, 3020, kAny, "makes dptr, with room") \
  X(cuLibraryLoadData, cuLibraryLoadData, 12000, kAny, "makes library, with room") \
  X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000, kAny, "makes library, with room") \
  X(cuLibraryGetModule, cuLibraryGetModule, 12000, kAny, "makes pMod, with room") \
  X(cuLibraryGetGlobal, cuLibraryGetGlobal, 12000, kAny, "makes dptr, with room") \
  X(cuLibraryGetManaged, cuLibraryGetManaged, 12000, kAny, "makes dptr, with room") \
  X(cuKernelGetFunction, cuKernelGetFunction, 12000, kAny, "makes pFunc, with room") \
  X(cuFuncLoad, cuFuncLoad, 12040, kAny, "makes function, with room") \
  X(cuFuncSetAttribute, cuFuncSetAttribute, 9000, kAny, "makes value, with room") \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, kAny, \
    "makes numBlocks, with room") \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, \
    7000, kAny, "makes numBlocks, with room") \
  X(cuOccupancyMaxPotentialBlockSize, cuOccupancyMaxPotentialBlockSize, 6050, kAny, "makes blockSize, with room") \
  X(cuOccupancyMaxPotentialBlockSizeWithFlags, cuOccupancyMaxPotentialBlockSizeWithFlags, 7000, kAny, \
    "makes blockSize, with room") \
  X(cuOccupancyAvailableDynamicSMemPerBlock, cuOccupancyAvailableDynamicSMemPerBlock, 10020, kAny, \
    "makes dynamicSmemSize, with room") \
  X(cuOccupancyMaxActiveClusters, cuOccupancyMaxActiveClusters, 11070, kAny, "makes numClusters, with room") \
  X(cuOccupancyMaxPotentialClusterSize, cuOccupancyMaxPotentialClusterSize, 11070, kAny, \
    "makes clusterSize, with room") \
  X(cuMemAllocManaged, cuMemAllocManaged, 6000, kAny, "makes dptr, with room; tells where tables may be") \
  X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000, kAny, "makes pHandle, with room") \
  X(cuCtxSetLimit, cuCtxSetLimit, 3010, kAny, "makes limit, with room") \
  X(cuCtxCreate_v2, cuCtxCreate, 3020, kAny, "makes pctx, with room") \
  X(cuCtxCreate_v3, cuCtxCreate, 11040, kAny, "makes pctx, with room") \
  X(cuCtxCreate_v4, cuCtxCreate, 12050, kAny, "makes pctx, with room") \
  X(cuStreamCreate, cuStreamCreate, 2000, kAny, "makes phStream, with room") \
  X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050, kAny, "makes phStream, with room") \
  X(cuEventCreate, cuEventCreate, 2000, kAny, "makes phEvent, with room") \
  /* How programs look up the functions above. */ \
  X(cuGetProcAddress, cuGetProcAddress, 11030, kAny, "finds symbol") \
  X(cuGetProcAddress_v2, cuGetProcAddress, 12000, kAny, "finds symbol")

// Called by the library itself, and never hooked.
#define THERMOCLINE_CALLED_FUNCTIONS(X) \
  X(cuCtxFromGreenCtx)                  \
  X(cuCtxGetCurrent)                    \
  X(cuCtxGetDevice)                     \
  X(cuCtxPopCurrent_v2)                 \
  X(cuCtxPushCurrent_v2)                \
  X(cuDeviceGet)                        \
  X(cuDeviceGetAttribute)               \
  X(cuDeviceGetCount)                   \
  X(cuDeviceGetDefaultMemPool)          \
  X(cuDeviceGetGraphMemAttribute)       \
  X(cuDeviceGetMemPool)                 \
  X(cuDevicePrimaryCtxGetState)         \
  X(cuDeviceTotalMem_v2)                \
  X(cuEventDestroy_v2)                  \
  X(cuEventQuery)                       \
  X(cuEventSynchronize)                 \
  X(cuFuncGetName)                      \
  X(cuFuncGetParamInfo)                 \
  X(cuGraphAddChildGraphNode)           \
  X(cuGraphAddDependencies)             \
  X(cuGraphBatchMemOpNodeGetParams)     \
  X(cuGraphChildGraphNodeGetGraph)      \
  X(cuGraphClone)                       \
  X(cuGraphEventRecordNodeSetEvent)     \
  X(cuGraphEventWaitNodeSetEvent)       \
  X(cuGraphGetNodes)                    \
  X(cuGraphNodeFindInClone)             \
  X(cuGraphNodeGetDependencies)         \
  X(cuGraphNodeGetDependencies_v2)      \
  X(cuGraphNodeGetDependentNodes)       \
  X(cuGraphKernelNodeGetParams)         \
  X(cuGraphKernelNodeGetParams_v2)      \
  X(cuGraphKernelNodeSetParams)         \
  X(cuGraphKernelNodeSetParams_v2)      \
  X(cuGraphMemcpyNodeGetParams)         \
  X(cuGraphMemAllocNodeGetParams)       \
  X(cuGraphMemsetNodeGetParams)         \
  X(cuGraphNodeGetType)                 \
  X(cuKernelGetName)                    \
  X(cuKernelGetParamInfo)               \
  X(cuLibraryGetKernelCount)            \
  X(cuStreamGetCaptureInfo_v2)          \
  X(cuStreamGetCtx)                     \
  X(cuStreamIsCapturing)                \
  X(cuThreadExchangeStreamCaptureMode)

// Passed to the driver.
#define THERMOCLINE_PASSED_FUNCTIONS(X) \
  X("first version: 32-bit addresses and sizes, which can not name our memory", \
    "cuDeviceTotalMem cuMemAlloc cuMemAllocPitch cuMemFree cuMemGetAddressRange cuMemGetInfo cuMemcpy2D " \
    "cuMemcpy2DAsync cuMemcpy2DUnaligned cuMemcpy3D cuMemcpy3DAsync cuMemcpyAtoD cuMemcpyDtoA cuMemcpyDtoD " \
    "cuMemcpyDtoDAsync cuMemcpyDtoH cuMemcpyDtoHAsync cuMemcpyHtoD cuMemcpyHtoDAsync cuMemsetD16 cuMemsetD2D16 " \
    "cuMemsetD2D32 cuMemsetD2D8 cuMemsetD32 cuMemsetD8 cuTexRefSetAddress cuTexRefSetAddress2D") \
  X("between arrays and the host", \
    "cuMemcpyAtoA cuMemcpyAtoA_v2 cuMemcpyAtoH cuMemcpyAtoHAsync cuMemcpyAtoHAsync_v2 cuMemcpyAtoH_v2 " \
    "cuMemcpyHtoA cuMemcpyHtoAAsync cuMemcpyHtoAAsync_v2 cuMemcpyHtoA_v2") \
  X("host memory", \
    "cuMemAllocHost cuMemHostGetDevicePointer cuMemHostGetDevicePointer_v2 cuMemHostGetFlags") \
  X("a pool as such; what a program allocates from it is ours", \
    "cuMemGetDefaultMemPool cuMemGetMemPool cuMemPoolDestroy cuMemPoolGetAccess") \
  X("pools that are exported are the driver's", \
    "cuMemPoolExportToShareableHandle cuMemPoolImportFromShareableHandle") \
  X("arrays", \
    "cuArray3DCreate cuArray3DGetDescriptor cuArray3DGetDescriptor_v2 cuArrayCreate " \
    "cuArrayGetDescriptor cuArrayGetDescriptor_v2 cuArrayGetMemoryRequirements " \
    "cuArrayGetPlane cuArrayGetSparseProperties cuExternalMemoryGetMappedMipmappedArray " \
    "cuGraphicsResourceGetMappedMipmappedArray cuGraphicsSubResourceGetMappedArray " \
    "cuMipmappedArrayDestroy cuMipmappedArrayGetLevel cuMipmappedArrayGetMemoryRequirements " \
    "cuMipmappedArrayGetSparseProperties cuSurfObjectCreate cuSurfObjectDestroy cuSurfRefGetArray " \
    "cuSurfRefSetArray cuTexRefGetArray cuTexRefGetMipmappedArray cuTexRefSetArray cuTexRefSetMipmappedArray") \
  X("textures: how they are read, not where", \
    "cuDeviceGetTexture1DLinearMaxWidth cuModuleGetSurfRef cuModuleGetTexRef cuParamSetTexRef " \
    "cuTexObjectGetResourceViewDesc cuTexObjectGetTextureDesc cuTexRefCreate cuTexRefDestroy " \
    "cuTexRefGetAddressMode cuTexRefGetBorderColor cuTexRefGetFilterMode cuTexRefGetFlags cuTexRefGetFormat " \
    "cuTexRefGetMaxAnisotropy cuTexRefGetMipmapFilterMode cuTexRefGetMipmapLevelBias cuTexRefGetMipmapLevelClamp " \
    "cuTexRefSetAddressMode cuTexRefSetBorderColor cuTexRefSetFilterMode cuTexRefSetFlags cuTexRefSetFormat " \
    "cuTexRefSetMaxAnisotropy cuTexRefSetMipmapFilterMode cuTexRefSetMipmapLevelBias cuTexRefSetMipmapLevelClamp") \
  X("parameters of cuLaunch, which counts as accessing everything", \
    "cuFuncSetBlockShape cuFuncSetSharedSize cuParamSetSize cuParamSetf cuParamSeti cuParamSetv") \
  X("memory of another interface", \
    "cuDestroyExternalMemory cuDestroyExternalSemaphore cuExternalMemoryGetMappedBuffer cuGraphicsMapResources " \
    "cuGraphicsResourceGetMappedPointer cuGraphicsResourceGetMappedPointer_v2 cuGraphicsResourceSetMapFlags " \
    "cuGraphicsResourceSetMapFlags_v2 cuGraphicsUnmapResources cuGraphicsUnregisterResource " \
    "cuImportExternalMemory cuImportExternalSemaphore") \
  X("memory of another interface (cudaGL.h, cudaEGL.h, cudaVDPAU.h)", \
    "cuEGLStreamConsumerAcquireFrame cuEGLStreamConsumerConnect cuEGLStreamConsumerConnectWithFlags " \
    "cuEGLStreamConsumerDisconnect cuEGLStreamConsumerReleaseFrame cuEGLStreamProducerConnect " \
    "cuEGLStreamProducerDisconnect cuEGLStreamProducerPresentFrame cuEGLStreamProducerReturnFrame " \
    "cuEventCreateFromEGLSync cuGLCtxCreate cuGLCtxCreate_v2 cuGLGetDevices cuGLGetDevices_v2 cuGLInit " \
    "cuGLMapBufferObject cuGLMapBufferObjectAsync cuGLMapBufferObjectAsync_v2 cuGLMapBufferObject_v2 " \
    "cuGLRegisterBufferObject cuGLSetBufferObjectMapFlags cuGLUnmapBufferObject cuGLUnmapBufferObjectAsync " \
    "cuGLUnregisterBufferObject cuGraphicsEGLRegisterImage cuGraphicsGLRegisterBuffer cuGraphicsGLRegisterImage " \
    "cuGraphicsResourceGetMappedEglFrame cuGraphicsVDPAURegisterOutputSurface cuGraphicsVDPAURegisterVideoSurface " \
    "cuVDPAUCtxCreate cuVDPAUCtxCreate_v2 cuVDPAUGetDevice cuWGLGetDevice") \
  X("events of another process", \
    "cuIpcGetEventHandle cuIpcOpenEventHandle") \
  X("handles of the program's own", \
    "cuLogicalEndpointAddDevice cuLogicalEndpointBindMem cuLogicalEndpointCreate cuLogicalEndpointDestroy " \
    "cuLogicalEndpointExport cuLogicalEndpointGetLimits cuLogicalEndpointIdRelease cuLogicalEndpointIdReserve " \
    "cuLogicalEndpointImport cuLogicalEndpointQuery cuLogicalEndpointUnbind cuMemExportToShareableHandle " \
    "cuMulticastBindMem cuMulticastBindMem_v2 cuMulticastGetGranularity") \
  X("read when an executable graph is made of it", \
    "cuGraphAddKernelNode cuGraphAddKernelNode_v2") \
  X("graph memory belongs to its graph", \
    "cuDeviceSetGraphMemAttribute cuGraphAddMemFreeNode") \
  X("orders nodes of a graph; accesses no memory", \
    "cuGraphAddDependencies_v2 cuGraphAddEmptyNode cuGraphAddEventRecordNode " \
    "cuGraphAddEventWaitNode cuGraphCreate cuGraphKernelNodeCopyAttributes cuGraphRemoveDependencies " \
    "cuGraphRemoveDependencies_v2 cuStreamUpdateCaptureDependencies cuStreamUpdateCaptureDependencies_v2") \
  X("lifetimes of the program's own objects", \
    "cuGraphReleaseUserObject cuGraphRetainUserObject cuUserObjectCreate cuUserObjectRelease cuUserObjectRetain") \
  X("asks", \
    "cuDeviceCanAccessPeer cuDeviceComputeCapability cuDeviceGetByPCIBusId " \
    "cuDeviceGetCliqueCount cuDeviceGetCliqueInfo cuDeviceGetDevResource " \
    "cuDeviceGetExecAffinitySupport cuDeviceGetFabricClusterUuid cuDeviceGetHostAtomicCapabilities " \
    "cuDeviceGetLuid cuDeviceGetName cuDeviceGetNvSciSyncAttributes cuDeviceGetP2PAtomicCapabilities " \
    "cuDeviceGetP2PAttribute cuDeviceGetPCIBusId cuDeviceGetProperties cuDeviceGetUuid cuDeviceGetUuid_v2 " \
    "cuDeviceRegisterAsyncNotification cuDeviceUnregisterAsyncNotification cuDriverGetVersion cuGetErrorName " \
    "cuGetErrorString cuGraphDebugDotPrint " \
    "cuGraphEventRecordNodeGetEvent cuGraphEventWaitNodeGetEvent cuGraphExecGetFlags cuGraphExecGetId " \
    "cuGraphExternalSemaphoresSignalNodeGetParams cuGraphExternalSemaphoresWaitNodeGetParams cuGraphGetEdges " \
    "cuGraphGetEdges_v2 cuGraphGetId cuGraphGetRootNodes cuGraphKernelNodeGetAttribute " \
    "cuGraphMemFreeNodeGetParams cuGraphNodeGetContainingGraph cuGraphNodeGetDependentNodes_v2 cuGraphNodeGetEnabled cuGraphNodeGetLocalId " \
    "cuGraphNodeGetParams cuGraphNodeGetToolsId cuInit cuMemGetAllocationGranularity " \
    "cuMemGetAllocationPropertiesFromHandle cuMemGetLocationInfo cuStreamGetAttribute cuStreamGetCaptureInfo " \
    "cuStreamGetCaptureInfo_v3 cuStreamGetCtx_v2 cuStreamGetDevResource cuStreamGetDevice " \
    "cuStreamGetFlags cuStreamGetGreenCtx cuStreamGetId cuStreamGetPriority cuSurfObjectGetResourceDesc " \
    "cuTexObjectGetResourceDesc cuTexRefGetAddress cuTexRefGetAddress_v2") \
  X("runs on the host", \
    "cuGraphAddHostNode cuGraphExecHostNodeSetParams cuGraphHostNodeGetParams cuGraphHostNodeSetParams") \
  X("which context is current is asked for at each call", \
    "cuCtxGetApiVersion cuCtxGetCacheConfig cuCtxGetDevResource cuCtxGetDevice_v2 " \
    "cuCtxGetExecAffinity cuCtxGetFlags cuCtxGetId cuCtxGetLimit cuCtxGetSharedMemConfig " \
    "cuCtxGetStreamPriorityRange cuCtxPopCurrent cuCtxPushCurrent cuCtxSetCurrent") \
  X("a context that has allocated nothing", \
    "cuCtxCreate cuDevResourceGenerateDesc cuDevSmResourceSplit " \
    "cuDevSmResourceSplitByCount cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2 " \
    "cuGreenCtxGetDevResource cuGreenCtxGetId") \
  X("what was opened to a device stays open", \
    "cuCtxDisablePeerAccess") \
  X("orders streams; accesses no memory", \
    "cuCtxRecordEvent cuCtxWaitEvent cuEventDestroy cuEventElapsedTime cuEventElapsedTime_v2 " \
    "cuFlushGPUDirectRDMAWrites " \
    "cuGreenCtxRecordEvent cuGreenCtxWaitEvent") \
  X("how a context runs, not what it accesses", \
    "cuCtxResetPersistingL2Cache cuCtxSetCacheConfig cuCtxSetFlags cuCtxSetSharedMemConfig") \
  X("code and what describes it", \
    "cuFuncGetAttribute cuFuncGetModule cuFuncGetParamCount cuFuncIsLoaded " \
    "cuFuncSetCacheConfig cuFuncSetSharedMemConfig cuKernelGetAttribute cuKernelGetLibrary " \
    "cuKernelGetParamCount cuKernelSetAttribute cuKernelSetCacheConfig " \
    "cuLibraryGetUnifiedFunction cuLinkAddData cuLinkAddData_v2 " \
    "cuLinkAddFile cuLinkAddFile_v2 cuLinkComplete cuLinkCreate cuLinkCreate_v2 cuLinkDestroy " \
    "cuModuleEnumerateFunctions cuModuleGetFunctionCount cuModuleGetLoadingMode") \
  X("acts on the process as a whole", \
    "cuCheckpointOperationComplete cuCheckpointProcessCheckpoint cuCheckpointProcessGetRestoreThreadId " \
    "cuCheckpointProcessGetState cuCheckpointProcessLock cuCheckpointProcessRestore cuCheckpointProcessUnlock " \
    "cuCoredumpDeregisterCompleteCallback cuCoredumpDeregisterStartCallback cuCoredumpGetAttribute " \
    "cuCoredumpGetAttributeGlobal cuCoredumpRegisterCompleteCallback cuCoredumpRegisterStartCallback " \
    "cuCoredumpSetAttribute cuCoredumpSetAttributeGlobal cuLogsCurrent cuLogsDumpToFile cuLogsDumpToMemory " \
    "cuLogsRegisterCallback cuLogsUnregisterCallback cuProfilerInitialize cuProfilerStart cuProfilerStop") \
  X("tables that the driver does not describe", \
    "cuGetExportTable") \
  X("orders; accesses no memory of ours", \
    "cuGraphAddExternalSemaphoresSignalNode cuGraphAddExternalSemaphoresWaitNode " \
    "cuGraphExecExternalSemaphoresSignalNodeSetParams cuGraphExecExternalSemaphoresWaitNodeSetParams " \
    "cuGraphExternalSemaphoresSignalNodeSetParams cuGraphExternalSemaphoresWaitNodeSetParams " \
    "cuSignalExternalSemaphoresAsync") \
  X("a value of the graph's own", \
    "cuGraphConditionalHandleCreate") \
  X("in no public header; cuDNN 9.26 and NCCL 2.30.7 look them up (proc_address.cc says where a driver has them)", \
    "cuSubgridCreate cuSubgridWorkerGridCreate cuSubgridWorksetCreate") \
  X("a stream that has done nothing", \
    "cuGreenCtxStreamCreate") \
  X("memory of another process", \
    "cuIpcCloseMemHandle cuIpcOpenMemHandle cuIpcOpenMemHandle_v2 cuMemPoolImportPointer") \
  X("addresses of the program's own", \
    "cuMemAddressFree") \
  X("addresses cost no memory", \
    "cuMemAddressReserve") \
  X("managed memory", \
    "cuMemAdvise cuMemAdvise_v2 cuMemDiscardAndPrefetchBatchAsync cuMemDiscardBatchAsync cuMemPrefetchAsync " \
    "cuMemPrefetchAsync_v2 cuMemPrefetchBatchAsync cuMemRangeGetAttribute cuMemRangeGetAttributes " \
    "cuStreamAttachMemAsync") \
  X("mappings of the program's own", \
    "cuMemGetAccess cuMemSetAccess") \
  X("memory that is counted where it was created", \
    "cuMemImportFromShareableHandle") \
  X("arrays, from handles of the program's own", \
    "cuMemMapArrayAsync") \
  X("pools that can be exported are the driver's", \
    "cuMemPoolExportPointer") \
  X("memory of a module", \
    "cuModuleGetGlobal") \
  X("an object without memory", \
    "cuMulticastAddDevice cuMulticastCreate cuMulticastUnbind") \
  X("an access policy is a hint about a range", \
    "cuStreamCopyAttributes cuStreamSetAttribute")
// clang-format on
