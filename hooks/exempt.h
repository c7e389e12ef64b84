// SPDX-License-Identifier: Apache-2.0
// The driver functions that take an address, a stream or physical memory and are left to the driver all the same, each
// with its reason. A test reads cudaTypedefs.h: what takes such a thing is hooked (functions.h) or stands here, so that
// a new CUDA version can not add a road unseen. All versions and variants of the base are meant.
//
// First versions with 32-bit addresses are left alone by rule (functions.h), and do not stand here.
#pragma once

// clang-format off
#define THERMOCLINE_EXEMPT_FUNCTIONS(X) \
  /* They order streams among each other or ask about them. The engine waits on events of its own, which order made elsewhere can only
     make unnecessary. */ \
  X(cuEventRecord, "orders streams; touches no memory") \
  X(cuEventRecordWithFlags, "orders streams; touches no memory") \
  X(cuStreamWaitEvent, "orders streams; touches no memory") \
  X(cuStreamCreate, "a stream that has done nothing") \
  X(cuStreamCreateWithPriority, "a stream that has done nothing") \
  X(cuGreenCtxStreamCreate, "a stream that has done nothing") \
  X(cuStreamGetCaptureInfo, "asks") \
  X(cuStreamIsCapturing, "asks") \
  X(cuStreamUpdateCaptureDependencies, "orders nodes of a graph; touches no memory") \
  X(cuStreamGetCtx, "asks") \
  X(cuStreamGetDevice, "asks") \
  X(cuStreamGetFlags, "asks") \
  X(cuStreamGetGreenCtx, "asks") \
  X(cuStreamGetId, "asks") \
  X(cuStreamGetPriority, "asks") \
  X(cuStreamGetAttribute, "asks") \
  X(cuStreamSetAttribute, "an access policy is a hint about a range") \
  X(cuStreamCopyAttributes, "an access policy is a hint about a range") \
  X(cuStreamAddCallback, "runs on the host") \
  X(cuLaunchHostFunc, "runs on the host") \
  X(cuSignalExternalSemaphoresAsync, "orders; touches no memory of ours") \
  X(cuWaitExternalSemaphoresAsync, "orders; touches no memory of ours") \
  /* Memory that is never ours. */ \
  X(cuMemcpyAtoHAsync, "between arrays and the host") \
  X(cuMemcpyHtoAAsync, "between arrays and the host") \
  X(cuMemAllocManaged, "managed memory has its own way to the host") \
  X(cuMemPrefetchAsync, "managed memory") \
  X(cuMemPrefetchBatchAsync, "managed memory") \
  X(cuMemDiscardBatchAsync, "managed memory") \
  X(cuMemDiscardAndPrefetchBatchAsync, "managed memory") \
  X(cuMemAdvise, "managed memory") \
  X(cuMemRangeGetAttribute, "managed memory") \
  X(cuMemRangeGetAttributes, "managed memory") \
  X(cuStreamAttachMemAsync, "managed memory") \
  X(cuMemHostGetDevicePointer, "host memory") \
  X(cuModuleGetGlobal, "memory of a module") \
  X(cuLibraryGetGlobal, "memory of a library") \
  X(cuLibraryGetManaged, "memory of a library") \
  X(cuIpcOpenMemHandle, "memory of another process") \
  X(cuIpcCloseMemHandle, "memory of another process") \
  X(cuMemPoolImportPointer, "memory of another process") \
  X(cuMemPoolExportPointer, "pools that can be exported are the driver's") \
  X(cuExternalMemoryGetMappedBuffer, "memory of another interface") \
  X(cuGraphicsMapResources, "memory of another interface") \
  X(cuGraphicsUnmapResources, "memory of another interface") \
  X(cuGraphicsResourceGetMappedPointer, "memory of another interface") \
  X(cuGraphMemAllocNodeGetParams, "asks") \
  X(cuGraphMemFreeNodeGetParams, "asks") \
  X(cuGraphMemcpyNodeGetParams, "asks") \
  X(cuGraphMemsetNodeGetParams, "asks") \
  X(cuGraphKernelNodeGetParams, "asks") \
  X(cuGraphBatchMemOpNodeGetParams, "asks") \
  X(cuGraphAddMemAllocNode, "graph memory belongs to its graph") \
  X(cuGraphAddMemFreeNode, "graph memory belongs to its graph") \
  X(cuGraphHostNodeGetParams, "runs on the host") \
  X(cuGraphHostNodeSetParams, "runs on the host") \
  X(cuGraphExecHostNodeSetParams, "runs on the host") \
  X(cuGraphAddHostNode, "runs on the host") \
  X(cuGraphAddExternalSemaphoresSignalNode, "orders; touches no memory of ours") \
  X(cuGraphAddExternalSemaphoresWaitNode, "orders; touches no memory of ours") \
  X(cuGraphExternalSemaphoresSignalNodeGetParams, "asks") \
  X(cuGraphExternalSemaphoresWaitNodeGetParams, "asks") \
  X(cuGraphExternalSemaphoresSignalNodeSetParams, "orders; touches no memory of ours") \
  X(cuGraphExternalSemaphoresWaitNodeSetParams, "orders; touches no memory of ours") \
  X(cuGraphExecExternalSemaphoresSignalNodeSetParams, "orders; touches no memory of ours") \
  X(cuGraphExecExternalSemaphoresWaitNodeSetParams, "orders; touches no memory of ours") \
  X(cuGraphConditionalHandleCreate, "a value of the graph's own") \
  /* Graphs: what their nodes name is held from the moment it is named. */ \
  X(cuGraphInstantiate, "its nodes are held already") \
  X(cuGraphInstantiateWithFlags, "its nodes are held already") \
  X(cuGraphInstantiateWithParams, "its nodes are held already") \
  X(cuGraphUpload, "its nodes are held already") \
  X(cuGraphExecUpdate, "its nodes are held already") \
  X(cuGraphExecChildGraphNodeSetParams, "its nodes are held already") \
  X(cuGraphExecDestroy, "what was held stays held until it is freed") \
  X(cuGraphExecEventRecordNodeSetEvent, "orders streams; touches no memory") \
  X(cuGraphExecEventWaitNodeSetEvent, "orders streams; touches no memory") \
  X(cuGraphExecGetFlags, "asks") \
  X(cuGraphNodeGetEnabled, "asks") \
  X(cuGraphNodeSetEnabled, "its nodes are held already") \
  /* Addresses and physical memory that the program manages itself. */ \
  X(cuMemAddressReserve, "addresses cost no memory") \
  X(cuMemAddressFree, "addresses of the program's own") \
  X(cuMemSetAccess, "mappings of the program's own") \
  X(cuMemGetAccess, "mappings of the program's own") \
  X(cuMemExportToShareableHandle, "handles of the program's own") \
  X(cuMemImportFromShareableHandle, "memory that is counted where it was created") \
  X(cuMemGetAllocationPropertiesFromHandle, "asks") \
  X(cuMemMapArrayAsync, "arrays, from handles of the program's own") \
  X(cuMulticastCreate, "an object without memory") \
  X(cuMulticastAddDevice, "an object without memory") \
  X(cuMulticastBindMem, "handles of the program's own") \
  X(cuMulticastUnbind, "an object without memory") \
  /* Questions about launches. */ \
  X(cuOccupancyMaxActiveClusters, "asks") \
  X(cuOccupancyMaxPotentialClusterSize, "asks") \
  /* Textures that are asked about, and resources that can only be arrays. */ \
  X(cuSurfObjectCreate, "arrays") \
  X(cuSurfObjectGetResourceDesc, "asks") \
  X(cuTexObjectGetResourceDesc, "asks") \
  X(cuTexRefGetAddress, "asks")
// clang-format on
