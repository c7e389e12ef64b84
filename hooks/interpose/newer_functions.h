// SPDX-License-Identifier: Apache-2.0
// Declarations of hooked functions that are newer than CUDA 13.0, the oldest supported cuda.h. So a library that was
// built with older headers still sees what programs do with a newer driver. Each is declared only if the header lacks
// it. Signatures and layouts: cuda.h of CUDA 13.5. Part of cuda_api.h.
#pragma once

#include <cuda.h>

// NOLINTBEGIN(readability-identifier-naming): the names are CUDA's.

#pragma GCC visibility push(default)
extern "C" {

#if CUDA_VERSION < 13010
CUresult CUDAAPI cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                        CUdeviceptr memptr, size_t size, unsigned long long flags);
CUresult CUDAAPI cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void* userData, unsigned int syncMode);
CUresult CUDAAPI cuLaunchHostFunc_v2_ptsz(CUstream hStream, CUhostFn fn, void* userData, unsigned int syncMode);
#endif

#if CUDA_VERSION < 13020
struct CUstreamCigCaptureParams;
CUresult CUDAAPI cuStreamBeginCaptureToCig(CUstream hStream, CUstreamCigCaptureParams* streamCigCaptureParams);
CUresult CUDAAPI cuStreamBeginCaptureToCig_ptsz(CUstream hStream, CUstreamCigCaptureParams* streamCigCaptureParams);
CUresult CUDAAPI cuStreamEndCaptureToCig(CUstream hStream);
CUresult CUDAAPI cuStreamEndCaptureToCig_ptsz(CUstream hStream);
CUresult CUDAAPI cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes* attr,
                                             CUstream hStream);
CUresult CUDAAPI cuMemcpyWithAttributesAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t size,
                                                  CUmemcpyAttributes* attr, CUstream hStream);
CUresult CUDAAPI cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP* op, unsigned long long flags, CUstream hStream);
CUresult CUDAAPI cuMemcpy3DWithAttributesAsync_ptsz(CUDA_MEMCPY3D_BATCH_OP* op, unsigned long long flags,
                                                    CUstream hStream);
#endif

#if CUDA_VERSION < 13030
typedef cuuint32_t CUlogicalEndpointId;
typedef CUresult(CUDA_CB* CUgraphRecaptureCallback)(void* data, CUgraphNode node,
                                                    const CUgraphNodeParams* originalParams,
                                                    const CUgraphNodeParams* recaptureParams, int status);
CUresult CUDAAPI cuLogicalEndpointBindAddr(CUlogicalEndpointId leId, CUdevice dev, cuuint64_t offset, void* ptr,
                                           cuuint64_t size, unsigned long long flags);
CUresult CUDAAPI cuStreamBeginRecaptureToGraph(CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,
                                               CUgraphRecaptureCallback callbackFunc, void* userData);
CUresult CUDAAPI cuStreamBeginRecaptureToGraph_ptsz(CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,
                                                    CUgraphRecaptureCallback callbackFunc, void* userData);
#endif

#if CUDA_VERSION < 13040
CUresult CUDAAPI cuGraphAddNode_v3(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                   const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                   CUgraphNodeParams* nodeParams);
CUresult CUDAAPI cuGraphNodeSetParams_v2(CUgraphNode hNode, CUgraphNodeParams* nodeParams);
#endif

#if CUDA_VERSION < 13050
typedef enum CUfabricCpyOperandType_enum {
  CU_FABRIC_COPY_OPERAND_TYPE_POINTER = 0x1,
  CU_FABRIC_COPY_OPERAND_TYPE_LOGICAL_ENDPOINT = 0x2,
  CU_FABRIC_COPY_OPERAND_TYPE_MAX = 0x7FFFFFFF
} CUfabricCpyOperandType;
typedef struct CUfabricCpyOperand_st {
  CUfabricCpyOperandType type;
  union {
    struct {
      CUdeviceptr ptr;
      CUmemLocation locHint;
    } ptr;
    struct {
      CUlogicalEndpointId id;
      cuuint64_t offset;
    } le;
  } op;
} CUfabricCpyOperand;
typedef struct CUDA_FABRIC_COPY_BATCH_OP_st {
  CUfabricCpyOperand src;
  CUfabricCpyOperand dst;
  size_t size;
  unsigned int flags;
} CUDA_FABRIC_COPY_BATCH_OP;
typedef enum CUtensorMapAllocClass_enum {
  CU_TENSOR_MAP_ALLOC_CLASS_AUTO = 0,
  CU_TENSOR_MAP_ALLOC_CLASS_SMALL = 1,
  CU_TENSOR_MAP_ALLOC_CLASS_LARGE = 2
} CUtensorMapAllocClass;
CUresult CUDAAPI cuTensorMapSetAllocationClass(CUtensorMap* tensorMap, CUtensorMapAllocClass allocClass,
                                               CUtensorMapAllocClass* outAllocClass);
CUresult CUDAAPI cuFabricCpyBatchAsync(size_t numOps, CUDA_FABRIC_COPY_BATCH_OP* opList, unsigned long long flags,
                                       CUstream hStream);
CUresult CUDAAPI cuFabricCpyBatchAsync_ptsz(size_t numOps, CUDA_FABRIC_COPY_BATCH_OP* opList, unsigned long long flags,
                                            CUstream hStream);
#endif

}  // extern "C"
#pragma GCC visibility pop
// NOLINTEND(readability-identifier-naming)
