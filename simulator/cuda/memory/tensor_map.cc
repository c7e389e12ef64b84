// SPDX-License-Identifier: Apache-2.0
// Tensor maps: descriptors of tensors in device memory that kernels are given by value, or read from memory. The
// simulated device stores where the tensor is and its layout (core/memory/tensor_map.h). The documented rules for
// addresses, extents, strides and boxes are checked.
#include "simulator/core/memory/tensor_map.h"

#include <algorithm>

#include "simulator/core/hash.h"
#include "simulator/cuda/call.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

constexpr std::uintptr_t kMapAlignment = 64;

struct Tensor {
  CUtensorMapDataType type;
  cuuint32_t rank;
  const void* address;
  const cuuint64_t* extents;
  const cuuint64_t* strides;  // of all dimensions but the first
  const cuuint32_t* element_strides;
  CUtensorMapInterleave interleave;
};

// 0: unknown type. For packed types: the size of 16 values.
int bytes_of(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ:
      return 4;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
    case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B:
      return 8;
    case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B:
    case CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B:
      return 16;
    default:
      return 0;
  }
}

bool is_multiple(const void* address, std::uintptr_t unit) {
  return reinterpret_cast<std::uintptr_t>(address) % unit == 0;
}

bool describe(const Tensor& tensor, cuuint32_t least_rank, TensorMap* out) {
  const int bytes = bytes_of(tensor.type);
  if (bytes == 0 || tensor.rank < least_rank || tensor.rank > kMostTensorDimensions) return false;
  const bool wide = tensor.interleave == CU_TENSOR_MAP_INTERLEAVE_32B || bytes == 16;
  const std::uint64_t unit = wide ? 32 : 16;
  if (tensor.address == nullptr || !is_multiple(tensor.address, unit)) return false;
  if (tensor.extents == nullptr || tensor.element_strides == nullptr || (tensor.strides == nullptr && tensor.rank > 1))
    return false;
  out->address = reinterpret_cast<Address>(tensor.address);
  out->rank = static_cast<std::uint8_t>(tensor.rank);
  out->element_bytes = static_cast<std::uint8_t>(bytes);
  for (cuuint32_t i = 0; i < tensor.rank; ++i) {
    out->extents[i] = tensor.extents[i];
    if (tensor.extents[i] == 0 || tensor.extents[i] > cuuint64_t{1} << 32) return false;
    if (tensor.element_strides[i] == 0 || tensor.element_strides[i] > 8) return false;
    if (i == 0) continue;
    out->strides[i] = tensor.strides[i - 1];
    if (out->strides[i] % unit != 0 || out->strides[i] >= cuuint64_t{1} << 40) return false;
  }
  return true;
}

// The other arguments only make one map different from another.
template <class... Values>
std::uint32_t rest_of(Values... values) {
  std::uint64_t hash = 0;
  ((hash = combine(hash, static_cast<std::uint64_t>(values))), ...);
  return static_cast<std::uint32_t>(hash);
}

CUresult finish(CUtensorMap* to, const TensorMap& map) {
  encode(map, to);
  return CUDA_SUCCESS;
}

}  // namespace

static_assert(sizeof(CUtensorMap) == kTensorMapBytes);

SIMULATED_API CUresult cuTensorMapEncodeTiled(CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                              const cuuint64_t* extents, const cuuint64_t* strides,
                                              const cuuint32_t* box, const cuuint32_t* element_strides,
                                              CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                              CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  Call call;
  if (!call) return call.result();
  if (to == nullptr || !is_multiple(to, kMapAlignment) || box == nullptr) return CUDA_ERROR_INVALID_VALUE;
  TensorMap map;
  const cuuint32_t least = interleave == CU_TENSOR_MAP_INTERLEAVE_NONE ? 1 : 3;
  if (!describe({type, rank, address, extents, strides, element_strides, interleave}, least, &map))
    return CUDA_ERROR_INVALID_VALUE;
  for (cuuint32_t i = 0; i < rank; ++i) {
    map.box[i] = box[i];
    if (box[i] == 0 || box[i] > 256) return CUDA_ERROR_INVALID_VALUE;
  }
  if (interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && box[0] * map.element_bytes % 16 != 0)
    return CUDA_ERROR_INVALID_VALUE;
  map.rest = rest_of(1, type, interleave, swizzle, promotion, fill);
  return finish(to, map);
}

SIMULATED_API CUresult cuTensorMapEncodeIm2col(CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank,
                                               void* address, const cuuint64_t* extents, const cuuint64_t* strides,
                                               const int* lower, const int* upper, cuuint32_t channels,
                                               cuuint32_t pixels, const cuuint32_t* element_strides,
                                               CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                               CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  Call call;
  if (!call) return call.result();
  if (to == nullptr || !is_multiple(to, kMapAlignment) || lower == nullptr || upper == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  TensorMap map;
  if (channels > 256 || pixels > 1024 ||
      !describe({type, rank, address, extents, strides, element_strides, interleave}, 3, &map))
    return CUDA_ERROR_INVALID_VALUE;
  map.box = {channels, pixels};
  map.rest = rest_of(2, type, interleave, swizzle, promotion, fill, lower[0], upper[0]);
  return finish(to, map);
}

SIMULATED_API CUresult cuTensorMapEncodeIm2colWide(CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank,
                                                   void* address, const cuuint64_t* extents, const cuuint64_t* strides,
                                                   int lower, int upper, cuuint32_t channels, cuuint32_t pixels,
                                                   const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                                   CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
                                                   CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  Call call;
  if (!call) return call.result();
  if (to == nullptr || !is_multiple(to, kMapAlignment)) return CUDA_ERROR_INVALID_VALUE;
  TensorMap map;
  if (channels > 256 || pixels > 1024 ||
      !describe({type, rank, address, extents, strides, element_strides, interleave}, 3, &map))
    return CUDA_ERROR_INVALID_VALUE;
  map.box = {channels, pixels};
  map.rest = rest_of(3, type, interleave, mode, swizzle, promotion, fill, lower, upper);
  return finish(to, map);
}

SIMULATED_API CUresult cuTensorMapReplaceAddress(CUtensorMap* to, void* address) {
  Call call;
  if (!call) return call.result();
  TensorMap map;
  if (to == nullptr || address == nullptr || !is_multiple(address, 16) || !decode(to, &map))
    return CUDA_ERROR_INVALID_VALUE;
  map.address = reinterpret_cast<Address>(address);
  return finish(to, map);
}
