// SPDX-License-Identifier: Apache-2.0
// Copies of rectangles and boxes.
#include "simulator/cuda/memory/array.h"
#include "simulator/cuda/memory/transfer.h"

#include <type_traits>

using namespace simulator;
using namespace simulator::cuda;

namespace {

// One end as the structures of cuda.h describe it.
struct Corner {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  std::size_t x, y, z;
  std::size_t pitch, height;
  CUcontext context = nullptr;  // that the caller names for it
  CUarray array = nullptr;
};

struct Extent {
  std::size_t width, height, depth;
};

// Must be whole elements within the array.
CUresult end_in_array(const Corner& corner, const Extent& extent, End* out) {
  if (!state().arrays.has(corner.array)) return CUDA_ERROR_INVALID_VALUE;
  const CUarray_st& array = *corner.array;
  const auto fits = [](std::size_t from, std::size_t count, Bytes most) {
    return from <= most && count <= most - from;
  };
  if (corner.x % array.element != 0 || extent.width % array.element != 0 ||
      !fits(corner.x, extent.width, array.row()) || !fits(corner.y, extent.height, array.rows()) ||
      !fits(corner.z, extent.depth, array.slices()))
    return CUDA_ERROR_INVALID_VALUE;
  const Bytes slice = array.row() * array.rows();
  out->side = Side::kDevice;
  out->at = array.address + corner.z * slice + corner.y * array.row() + corner.x;
  out->shape = {extent.width, extent.height, extent.depth, array.row(), slice};
  return CUDA_SUCCESS;
}

CUresult end_of(const Corner& corner, const Extent& extent, End* out) {
  if (corner.type == CU_MEMORYTYPE_ARRAY) return end_in_array(corner, extent, out);
  const std::size_t pitch = corner.pitch != 0 ? corner.pitch : corner.x + extent.width;
  const std::size_t rows = corner.height != 0 ? corner.height : corner.y + extent.height;
  if (extent.height > 1 && pitch < corner.x + extent.width) return CUDA_ERROR_INVALID_VALUE;
  if (extent.depth > 1 && rows < corner.y + extent.height) return CUDA_ERROR_INVALID_VALUE;
  Address base = 0;
  switch (corner.type) {
    case CU_MEMORYTYPE_HOST:
      out->side = Side::kHost;
      base = reinterpret_cast<Address>(corner.host);
      break;
    case CU_MEMORYTYPE_DEVICE:
      out->side = Side::kDevice;
      base = corner.device;
      break;
    case CU_MEMORYTYPE_UNIFIED:
      out->side = Side::kUnified;
      base = corner.device;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (base == 0) return CUDA_ERROR_INVALID_VALUE;
  out->at = base + (corner.z * rows + corner.y) * pitch + corner.x;
  out->shape = {extent.width, extent.height, extent.depth, pitch, pitch * rows};
  return CUDA_SUCCESS;
}

CUresult copy(const Corner& to_corner, const Corner& from_corner, const Extent& extent, CUstream stream,
              Blocking blocking, const char* caller) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return CUDA_SUCCESS;
  End to, from;
  if (const CUresult result = end_of(to_corner, extent, &to); result != CUDA_SUCCESS) return result;
  if (const CUresult result = end_of(from_corner, extent, &from); result != CUDA_SUCCESS) return result;
  if (const CUresult result = device_of(call, to_corner.context, &to.as); result != CUDA_SUCCESS) return result;
  if (const CUresult result = device_of(call, from_corner.context, &from.as); result != CUDA_SUCCESS) return result;
  return transfer(call, to, from, stream, blocking);
}

CUresult copy_2d(const CUDA_MEMCPY2D* c, CUstream stream, Blocking blocking,
                 const char* caller = __builtin_FUNCTION()) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return copy(
      {c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes, c->dstY, 0, c->dstPitch, 0, nullptr, c->dstArray},
      {c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes, c->srcY, 0, c->srcPitch, 0, nullptr, c->srcArray},
      {c->WidthInBytes, c->Height, 1}, stream, blocking, caller);
}

// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER have the same field names.
template <typename Description>
CUresult copy_3d(const Description* c, CUstream stream, Blocking blocking, const char* caller = __builtin_FUNCTION()) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Corner to{c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes, c->dstY, c->dstZ, c->dstPitch, c->dstHeight};
  Corner from{c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes, c->srcY, c->srcZ, c->srcPitch, c->srcHeight};
  to.array = c->dstArray;
  from.array = c->srcArray;
  if constexpr (std::is_same_v<Description, CUDA_MEMCPY3D_PEER>) {
    to.context = c->dstContext;
    from.context = c->srcContext;
  }
  return copy(to, from, {c->WidthInBytes, c->Height, c->Depth}, stream, blocking, caller);
}

// Sizes are in elements of the array if one is involved, else in bytes.
std::size_t element_of(const CUDA_MEMCPY3D_BATCH_OP& op) {
  for (const CUmemcpy3DOperand* operand : {&op.dst, &op.src}) {
    if (operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY && state().arrays.has(operand->op.array.array)) {
      return operand->op.array.array->element;
    }
  }
  return 1;
}

CUresult corner_of(const CUmemcpy3DOperand& operand, std::size_t element, Corner* out) {
  *out = {};
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
    const auto& pointer = operand.op.ptr;
    out->type = CU_MEMORYTYPE_UNIFIED;
    out->device = pointer.ptr;
    out->pitch = pointer.rowLength * element;
    out->height = pointer.layerHeight;
    return CUDA_SUCCESS;
  }
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_ARRAY) return CUDA_ERROR_INVALID_VALUE;
  const auto& array = operand.op.array;
  out->type = CU_MEMORYTYPE_ARRAY;
  out->array = array.array;
  out->x = array.offset.x * element;
  out->y = array.offset.y;
  out->z = array.offset.z;
  return CUDA_SUCCESS;
}

CUresult copy_one(Call& call, const CUDA_MEMCPY3D_BATCH_OP& op, CUstream stream) {
  if (op.srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM || op.srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY ||
      op.extent.width == 0 || op.extent.height == 0 || op.extent.depth == 0)
    return CUDA_ERROR_INVALID_VALUE;
  const std::size_t element = element_of(op);
  const Extent extent{op.extent.width * element, op.extent.height, op.extent.depth};
  Corner to_corner, from_corner;
  if (const CUresult result = corner_of(op.dst, element, &to_corner); result != CUDA_SUCCESS) return result;
  if (const CUresult result = corner_of(op.src, element, &from_corner); result != CUDA_SUCCESS) return result;
  End to, from;
  if (const CUresult result = end_of(to_corner, extent, &to); result != CUDA_SUCCESS) return result;
  if (const CUresult result = end_of(from_corner, extent, &from); result != CUDA_SUCCESS) return result;
  return transfer(call, to, from, stream, blocking_of(op.srcAccessOrder));
}

CUresult copy_batch(std::size_t count, const CUDA_MEMCPY3D_BATCH_OP* ops, std::size_t* failed, unsigned long long flags,
                    CUstream stream, const char* caller = __builtin_FUNCTION()) {
  if (failed != nullptr) *failed = SIZE_MAX;
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  // Documented: not the legacy stream.
  if (count == 0 || ops == nullptr || flags != 0 || stream == nullptr || stream == CU_STREAM_LEGACY)
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    const CUresult result = copy_one(call, ops[i], stream);
    if (result == CUDA_SUCCESS) continue;
    if (failed != nullptr) *failed = i;
    return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult simulator::cuda::ends_of(const CUDA_MEMCPY3D& c, End* to, End* from) {
  const Extent extent{c.WidthInBytes, c.Height, c.Depth};
  if (const CUresult result = end_of({c.dstMemoryType, c.dstHost, c.dstDevice, c.dstXInBytes, c.dstY, c.dstZ,
                                      c.dstPitch, c.dstHeight, nullptr, c.dstArray},
                                     extent, to);
      result != CUDA_SUCCESS)
    return result;
  return end_of({c.srcMemoryType, c.srcHost, c.srcDevice, c.srcXInBytes, c.srcY, c.srcZ, c.srcPitch, c.srcHeight,
                 nullptr, c.srcArray},
                extent, from);
}

SIMULATED_API CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* copy) {
  return copy_2d(copy, CU_STREAM_LEGACY, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D* copy) {
  return copy_2d(copy, CU_STREAM_PER_THREAD, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy) {
  return copy_2d(copy, CU_STREAM_LEGACY, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D* copy) {
  return copy_2d(copy, CU_STREAM_PER_THREAD, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return copy_2d(copy, stream, Blocking::kNo);
}

SIMULATED_API CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy) {
  return copy_3d(copy, CU_STREAM_LEGACY, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D* copy) {
  return copy_3d(copy, CU_STREAM_PER_THREAD, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return copy_3d(copy, stream, Blocking::kNo);
}

SIMULATED_API CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* copy) {
  return copy_3d(copy, CU_STREAM_LEGACY, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER* copy) {
  return copy_3d(copy, CU_STREAM_PER_THREAD, Blocking::kYes);
}
SIMULATED_API CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  return copy_3d(copy, stream, Blocking::kNo);
}

SIMULATED_API CUresult cuMemcpy3DBatchAsync_v2(std::size_t count, CUDA_MEMCPY3D_BATCH_OP* ops, unsigned long long flags,
                                               CUstream stream) {
  return copy_batch(count, ops, nullptr, flags, stream);
}
SIMULATED_API CUresult cuMemcpy3DBatchAsync(std::size_t count, CUDA_MEMCPY3D_BATCH_OP* ops, std::size_t* failed,
                                            unsigned long long flags, CUstream stream) {
  return copy_batch(count, ops, failed, flags, stream);
}
