// SPDX-License-Identifier: Apache-2.0
// Converts the runtime's structures to the driver's, and back. If both have the same layout (same fields, same
// numbers), `as_driver` reinterprets one as the other.
#pragma once

#include "simulator/cudart/driver.h"

namespace simulator::cudart {

// The format of an array's elements. False: not supported for arrays here.
struct Format {
  CUarray_format format = CU_AD_FORMAT_UNSIGNED_INT8;
  unsigned channels = 0;
};
bool to_format(const cudaChannelFormatDesc& desc, Format* out);
cudaChannelFormatDesc from_format(CUarray_format format, unsigned channels);
// The size of one element with all channels; 0: unknown format.
size_t element_bytes(CUarray_format format, unsigned channels);

CUmemorytype source_type(cudaMemcpyKind kind);
CUmemorytype destination_type(cudaMemcpyKind kind);
bool is_kind(cudaMemcpyKind kind);

inline CUarray array_of(cudaArray_const_t array) { return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array)); }
inline cudaArray_t array_from(CUarray array) { return reinterpret_cast<cudaArray_t>(array); }

// If an array is involved, widths and positions count its elements; otherwise, and for the other end, bytes.
cudaError_t to_driver(const Driver& table, const cudaMemcpy3DParms& box, CUDA_MEMCPY3D* out);
cudaError_t from_driver(const Driver& table, const CUDA_MEMCPY3D& copy, cudaMemcpy3DParms* out);
// One row of bytes.
CUDA_MEMCPY3D row_of(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);

static_assert(sizeof(CUmemLocation) == sizeof(cudaMemLocation));
static_assert(sizeof(CUgraphEdgeData) == sizeof(cudaGraphEdgeData));
static_assert(sizeof(CUDA_MEMSET_NODE_PARAMS) == sizeof(cudaMemsetParams));
static_assert(sizeof(CUDA_HOST_NODE_PARAMS) == sizeof(cudaHostNodeParams));
static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v1) == sizeof(cudaMemAllocNodeParams));
static_assert(sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS) == sizeof(cudaGraphInstantiateParams));
static_assert(sizeof(CUmemcpyAttributes) == sizeof(cudaMemcpyAttributes));
static_assert(sizeof(CUDA_MEMCPY3D_BATCH_OP) == sizeof(cudaMemcpy3DBatchOp));
static_assert(sizeof(CUDA_RESOURCE_VIEW_DESC) == sizeof(cudaResourceViewDesc));
static_assert(sizeof(CUipcMemHandle) == sizeof(cudaIpcMemHandle_t));
static_assert(sizeof(CUkernelNodeAttrValue) == sizeof(cudaKernelNodeAttrValue));
static_assert(sizeof(CUgraphNodeParams) == sizeof(cudaGraphNodeParams));

template <typename To, typename From>
To as_driver(From* from) {
  return reinterpret_cast<To>(from);
}

}  // namespace simulator::cudart
