// SPDX-License-Identifier: Apache-2.0
// Copies to and from arrays. Offsets and widths in these functions are in bytes and rows.
#include <algorithm>
#include <optional>

#include "simulator/cudart/convert.h"
#include "simulator/cudart/session.h"

namespace simulator::cudart {
namespace {

using Stream = std::optional<cudaStream_t>;
constexpr Stream kWait = std::nullopt;

// An array, or rows of plain memory.
struct End {
  CUarray array = nullptr;
  void* memory = nullptr;
  size_t pitch = 0;
  size_t x = 0;
  size_t y = 0;
};

End in_array(cudaArray_const_t array, size_t x, size_t y) { return {array_of(array), nullptr, 0, x, y}; }
End in_memory(const void* memory, size_t pitch) { return {nullptr, const_cast<void*>(memory), pitch, 0, 0}; }

cudaError_t copy(const Driver& table, const End& to, const End& from, size_t width, size_t height, cudaMemcpyKind kind,
                 Stream stream) {
  if (!is_kind(kind)) return cudaErrorInvalidMemcpyDirection;
  if (width == 0 || height == 0) return cudaSuccess;
  CUDA_MEMCPY2D box = {};
  box.srcXInBytes = from.x;
  box.srcY = from.y;
  box.srcMemoryType = from.array != nullptr ? CU_MEMORYTYPE_ARRAY : source_type(kind);
  box.srcHost = from.memory;
  box.srcDevice = address(from.memory);
  box.srcArray = from.array;
  box.srcPitch = from.pitch;
  box.dstXInBytes = to.x;
  box.dstY = to.y;
  box.dstMemoryType = to.array != nullptr ? CU_MEMORYTYPE_ARRAY : destination_type(kind);
  box.dstHost = to.memory;
  box.dstDevice = address(to.memory);
  box.dstArray = to.array;
  box.dstPitch = to.pitch;
  box.WidthInBytes = width;
  box.Height = height;
  return stream ? CUDART_CALL(table, cuMemcpy2DAsync, &box, *stream) : CUDART_CALL(table, cuMemcpy2DUnaligned, &box);
}

// Bytes of a row; plain memory has one row.
cudaError_t row_bytes(const Driver& table, const End& end, size_t* bytes) {
  *bytes = SIZE_MAX;
  if (end.array == nullptr) return cudaSuccess;
  CUDA_ARRAY3D_DESCRIPTOR desc = {};
  const cudaError_t status = CUDART_CALL(table, cuArray3DGetDescriptor, &desc, end.array);
  if (status == cudaSuccess) *bytes = desc.Width * element_bytes(desc.Format, desc.NumChannels);
  return status == cudaSuccess && *bytes == 0 ? cudaErrorNotSupported : status;
}

void advance(End* end, size_t bytes, size_t row) {
  if (end->array == nullptr) {
    end->memory = static_cast<char*>(end->memory) + bytes;
    return;
  }
  end->x += bytes;
  if (end->x < row) return;
  end->x = 0;
  ++end->y;
}

// Copies `bytes` contiguous bytes, row by row, across the ends of an array's rows.
cudaError_t copy_run(Rule rule, End to, End from, size_t bytes, cudaMemcpyKind kind, Stream stream) {
  return api(rule, [&](const Driver& table) {
    size_t to_row = 0;
    size_t from_row = 0;
    cudaError_t status = row_bytes(table, to, &to_row);
    if (status == cudaSuccess) status = row_bytes(table, from, &from_row);
    if (status == cudaSuccess && (to.x >= to_row || from.x >= from_row)) status = cudaErrorInvalidValue;
    while (status == cudaSuccess && bytes != 0) {
      const size_t part = std::min({bytes, to_row - to.x, from_row - from.x});
      if (to.array == nullptr) to.pitch = part;
      if (from.array == nullptr) from.pitch = part;
      status = copy(table, to, from, part, 1, kind, stream);
      advance(&to, part, to_row);
      advance(&from, part, from_row);
      bytes -= part;
    }
    return status;
  });
}

cudaError_t copy_rows(Rule rule, const End& to, const End& from, size_t width, size_t height, cudaMemcpyKind kind,
                      Stream stream) {
  return api(rule, [&](const Driver& table) { return copy(table, to, from, width, height, kind, stream); });
}

}  // namespace
}  // namespace simulator::cudart

using namespace simulator::cudart;

CUDART_BOTH(cudaMemcpy2DToArray, _ptds, copy_rows,
            (cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width, size_t height,
             cudaMemcpyKind kind),
            (in_array(to, x, y), in_memory(from, pitch), width, height, kind, kWait))
CUDART_BOTH(cudaMemcpy2DToArrayAsync, _ptsz, copy_rows,
            (cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width, size_t height,
             cudaMemcpyKind kind, cudaStream_t stream),
            (in_array(to, x, y), in_memory(from, pitch), width, height, kind, stream))
CUDART_BOTH(cudaMemcpy2DFromArray, _ptds, copy_rows,
            (void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width, size_t height,
             cudaMemcpyKind kind),
            (in_memory(to, pitch), in_array(from, x, y), width, height, kind, kWait))
CUDART_BOTH(cudaMemcpy2DFromArrayAsync, _ptsz, copy_rows,
            (void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width, size_t height,
             cudaMemcpyKind kind, cudaStream_t stream),
            (in_memory(to, pitch), in_array(from, x, y), width, height, kind, stream))
CUDART_BOTH(cudaMemcpy2DArrayToArray, _ptds, copy_rows,
            (cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t from_x, size_t from_y,
             size_t width, size_t height, cudaMemcpyKind kind),
            (in_array(to, to_x, to_y), in_array(from, from_x, from_y), width, height, kind, kWait))
CUDART_BOTH(cudaMemcpyToArray, _ptds, copy_run,
            (cudaArray_t to, size_t x, size_t y, const void* from, size_t bytes, cudaMemcpyKind kind),
            (in_array(to, x, y), in_memory(from, 0), bytes, kind, kWait))
CUDART_BOTH(cudaMemcpyToArrayAsync, _ptsz, copy_run,
            (cudaArray_t to, size_t x, size_t y, const void* from, size_t bytes, cudaMemcpyKind kind,
             cudaStream_t stream),
            (in_array(to, x, y), in_memory(from, 0), bytes, kind, stream))
CUDART_BOTH(cudaMemcpyFromArray, _ptds, copy_run,
            (void* to, cudaArray_const_t from, size_t x, size_t y, size_t bytes, cudaMemcpyKind kind),
            (in_memory(to, 0), in_array(from, x, y), bytes, kind, kWait))
CUDART_BOTH(cudaMemcpyFromArrayAsync, _ptsz, copy_run,
            (void* to, cudaArray_const_t from, size_t x, size_t y, size_t bytes, cudaMemcpyKind kind,
             cudaStream_t stream),
            (in_memory(to, 0), in_array(from, x, y), bytes, kind, stream))
CUDART_BOTH(cudaMemcpyArrayToArray, _ptds, copy_run,
            (cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t from_x, size_t from_y,
             size_t bytes, cudaMemcpyKind kind),
            (in_array(to, to_x, to_y), in_array(from, from_x, from_y), bytes, kind, kWait))
