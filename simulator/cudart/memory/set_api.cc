// SPDX-License-Identifier: Apache-2.0
// Memory set to one byte value: a row, pitched rows, boxes.
#include "simulator/cudart/session.h"

#include <optional>

namespace simulator::cudart {
namespace {

using Stream = std::optional<cudaStream_t>;
constexpr Stream kWait = std::nullopt;

cudaError_t set_rows(const Driver& table, void* begin, size_t pitch, int value, size_t width, size_t height,
                     Stream stream) {
  if (width == 0 || height == 0) return cudaSuccess;
  const auto byte = static_cast<unsigned char>(value);
  return stream ? CUDART_CALL(table, cuMemsetD2D8Async, address(begin), pitch, byte, width, height, *stream)
                : CUDART_CALL(table, cuMemsetD2D8, address(begin), pitch, byte, width, height);
}

cudaError_t memset_of(Rule rule, void* begin, int value, size_t bytes, Stream stream) {
  return api(rule, [&](const Driver& table) {
    if (bytes == 0) return cudaSuccess;
    const auto byte = static_cast<unsigned char>(value);
    return stream ? CUDART_CALL(table, cuMemsetD8Async, address(begin), byte, bytes, *stream)
                  : CUDART_CALL(table, cuMemsetD8, address(begin), byte, bytes);
  });
}

cudaError_t memset2d_of(Rule rule, void* begin, size_t pitch, int value, size_t width, size_t height, Stream stream) {
  return api(rule, [&](const Driver& table) { return set_rows(table, begin, pitch, value, width, height, stream); });
}

// Slices are ysize rows apart. If the box covers all rows of a slice, all slices are one sequence of rows.
cudaError_t memset3d_of(Rule rule, cudaPitchedPtr pitched, int value, cudaExtent extent, Stream stream) {
  return api(rule, [&](const Driver& table) {
    if (extent.height == pitched.ysize)
      return set_rows(table, pitched.ptr, pitched.pitch, value, extent.width, extent.height * extent.depth, stream);
    for (size_t slice = 0; slice < extent.depth; ++slice) {
      void* begin = static_cast<char*>(pitched.ptr) + slice * pitched.ysize * pitched.pitch;
      const cudaError_t status = set_rows(table, begin, pitched.pitch, value, extent.width, extent.height, stream);
      if (status != cudaSuccess) return status;
    }
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace simulator::cudart

using namespace simulator::cudart;

CUDART_BOTH(cudaMemset, _ptds, memset_of, (void* begin, int value, size_t bytes), (begin, value, bytes, kWait))
CUDART_BOTH(cudaMemsetAsync, _ptsz, memset_of, (void* begin, int value, size_t bytes, cudaStream_t stream),
            (begin, value, bytes, stream))
CUDART_BOTH(cudaMemset2D, _ptds, memset2d_of, (void* begin, size_t pitch, int value, size_t width, size_t height),
            (begin, pitch, value, width, height, kWait))
CUDART_BOTH(cudaMemset2DAsync, _ptsz, memset2d_of,
            (void* begin, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
            (begin, pitch, value, width, height, stream))
CUDART_BOTH(cudaMemset3D, _ptds, memset3d_of, (cudaPitchedPtr pitched, int value, cudaExtent extent),
            (pitched, value, extent, kWait))
CUDART_BOTH(cudaMemset3DAsync, _ptsz, memset3d_of,
            (cudaPitchedPtr pitched, int value, cudaExtent extent, cudaStream_t stream),
            (pitched, value, extent, stream))
