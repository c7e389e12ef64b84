// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/shapes.h"

namespace thermocline {
namespace {

bool is_solid(const Box& box) {
  const bool rows_access = box.rows == 1 || box.pitch == box.width;
  return rows_access && (box.layers == 1 || box.layer_rows == box.rows);
}

// One end of a copy, in memory of any kind.
struct End {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  Bytes x, y, z, pitch, height;
};

void add_copy(AccessList* accesses, const Placed& to, const Placed& from) {
  add_read(accesses, from.at, from.box);
  add_write(accesses, to.at, to.box);
  // Arrays contain no addresses.
  if (to.box.width == 0 || from.box.width == 0) return;
  accesses->move({.to = to.at,
                  .from = from.at,
                  .bytes = to.box.width,
                  .rows = to.box.rows,
                  .layers = to.box.layers,
                  .to_pitch = to.box.pitch,
                  .from_pitch = from.box.pitch,
                  .to_layer = to.box.layer_rows * to.box.pitch,
                  .from_layer = from.box.layer_rows * from.box.pitch});
}

Placed place(const End& end, Box box) {
  if (end.type == CU_MEMORYTYPE_ARRAY) return {0, Box{.width = 0}};
  const CUdeviceptr base = end.type == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(end.host) : end.device;
  box.pitch = end.pitch;
  box.layer_rows = end.height;
  return {base + (end.z * end.height + end.y) * end.pitch + end.x, box};
}

ShapedCopy shape_of_ends(const End& from, const End& to, const Box& box) {
  ShapedCopy shape{.accesses = {}, .to = place(to, box), .from = place(from, box)};
  add_copy(&shape.accesses, shape.to, shape.from);
  const bool to_host = to.type == CU_MEMORYTYPE_HOST;
  const bool from_host = from.type == CU_MEMORYTYPE_HOST;
  const bool perhaps_host = from.type == CU_MEMORYTYPE_UNIFIED || to.type == CU_MEMORYTYPE_UNIFIED;
  if (to_host) {
    shape.host = Host::kWaits;
  } else if (from_host || perhaps_host) {
    shape.host = Host::kWaitsFirst;
  }
  return shape;
}

// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER have these members in common.
template <class Copy>
ShapedCopy shape_of_boxes(const Copy& copy) {
  const End from{copy.srcMemoryType, copy.srcHost, copy.srcDevice, copy.srcXInBytes,
                 copy.srcY,          copy.srcZ,    copy.srcPitch,  copy.srcHeight};
  const End to{copy.dstMemoryType, copy.dstHost, copy.dstDevice, copy.dstXInBytes,
               copy.dstY,          copy.dstZ,    copy.dstPitch,  copy.dstHeight};
  return shape_of_ends(from, to, Box{.width = copy.WidthInBytes, .rows = copy.Height, .layers = copy.Depth});
}

// One end of a copy between pointers, where an element is a byte. If no row length or layer height is given, rows and
// layers are contiguous.
Placed place(const CUmemcpy3DOperand& operand, const CUextent3D& extent) {
  const auto& pointer = operand.op.ptr;
  return {pointer.ptr, Box{.width = extent.width,
                           .rows = extent.height,
                           .layers = extent.depth,
                           .pitch = pointer.rowLength != 0 ? pointer.rowLength : extent.width,
                           .layer_rows = pointer.layerHeight != 0 ? pointer.layerHeight : extent.height}};
}

}  // namespace

Bytes span_of(const Box& box) {
  if (box.width == 0 || box.rows == 0 || box.layers == 0) return 0;
  Bytes rows = 0, bytes = 0;
  const bool wraps = __builtin_mul_overflow(box.layers - 1, box.layer_rows, &rows) ||
                     __builtin_add_overflow(rows, box.rows - 1, &rows) ||
                     __builtin_mul_overflow(rows, box.pitch, &bytes) ||
                     __builtin_add_overflow(bytes, box.width, &bytes);
  return wraps ? kNoMemoryIsAsLarge : bytes;
}

void add_read(AccessList* accesses, CUdeviceptr at, const Box& box) { accesses->read(at, span_of(box)); }

void add_write(AccessList* accesses, CUdeviceptr at, const Box& box) {
  if (is_solid(box)) {
    accesses->write(at, span_of(box));
  } else {
    accesses->access(at, span_of(box));
  }
}

ShapedCopy shape_of(const CUDA_MEMCPY2D* copy) {
  if (copy == nullptr) return {};
  const End from{
      copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcXInBytes, copy->srcY, 0, copy->srcPitch, 0};
  const End to{
      copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstXInBytes, copy->dstY, 0, copy->dstPitch, 0};
  return shape_of_ends(from, to, Box{.width = copy->WidthInBytes, .rows = copy->Height});
}

ShapedCopy shape_of(const CUDA_MEMCPY3D* copy) { return copy == nullptr ? ShapedCopy{} : shape_of_boxes(*copy); }
ShapedCopy shape_of(const CUDA_MEMCPY3D_PEER* copy) { return copy == nullptr ? ShapedCopy{} : shape_of_boxes(*copy); }

ShapedCopy shape_of(const CUDA_MEMCPY3D_BATCH_OP* copy) {
  ShapedCopy shape;
  if (copy == nullptr) return shape;
  // Sizes are in elements of the array, whose size is not known here.
  if (copy->dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER || copy->src.type != CU_MEMCPY_OPERAND_TYPE_POINTER) {
    for (const CUmemcpy3DOperand* end : {&copy->dst, &copy->src}) {
      if (end->type == CU_MEMCPY_OPERAND_TYPE_POINTER) shape.accesses.word(end->op.ptr.ptr);
    }
    return shape;
  }
  shape.to = place(copy->dst, copy->extent);
  shape.from = place(copy->src, copy->extent);
  add_copy(&shape.accesses, shape.to, shape.from);
  return shape;
}

void add_set(AccessList* accesses, const CUDA_MEMSET_NODE_PARAMS& set) {
  add_write(accesses, set.dst, Box{.width = set.width * set.elementSize, .rows = set.height, .pitch = set.pitch});
}

}  // namespace thermocline
