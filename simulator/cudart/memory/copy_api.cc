// SPDX-License-Identifier: Apache-2.0
// Copies of plain memory and of variables: one row, pitched rows, and boxes, whose ends may be arrays.
#include "simulator/cudart/session.h"

#include <optional>

#include "simulator/cudart/convert.h"
#include "simulator/cudart/module/registry.h"

namespace simulator::cudart {
namespace {

// Without a stream: a copy for which the host waits.
using Stream = std::optional<cudaStream_t>;

cudaError_t copy_row(const Driver& table, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                     Stream stream) {
  if (!is_kind(kind)) return cudaErrorInvalidMemcpyDirection;
  if (bytes == 0) return cudaSuccess;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return stream ? CUDART_CALL(table, cuMemcpyHtoDAsync, address(to), from, bytes, *stream)
                    : CUDART_CALL(table, cuMemcpyHtoD, address(to), from, bytes);
    case cudaMemcpyDeviceToHost:
      return stream ? CUDART_CALL(table, cuMemcpyDtoHAsync, to, address(from), bytes, *stream)
                    : CUDART_CALL(table, cuMemcpyDtoH, to, address(from), bytes);
    case cudaMemcpyDeviceToDevice:
      return stream ? CUDART_CALL(table, cuMemcpyDtoDAsync, address(to), address(from), bytes, *stream)
                    : CUDART_CALL(table, cuMemcpyDtoD, address(to), address(from), bytes);
    default:
      return stream ? CUDART_CALL(table, cuMemcpyAsync, address(to), address(from), bytes, *stream)
                    : CUDART_CALL(table, cuMemcpy, address(to), address(from), bytes);
  }
}

cudaError_t copy_rows(const Driver& table, void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                      size_t height, cudaMemcpyKind kind, Stream stream) {
  if (!is_kind(kind)) return cudaErrorInvalidMemcpyDirection;
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
  if (width == 0 || height == 0) return cudaSuccess;
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = source_type(kind);
  copy.srcHost = from;
  copy.srcDevice = address(from);
  copy.srcPitch = from_pitch;
  copy.dstMemoryType = destination_type(kind);
  copy.dstHost = to;
  copy.dstDevice = address(to);
  copy.dstPitch = to_pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return stream ? CUDART_CALL(table, cuMemcpy2DAsync, &copy, *stream) : CUDART_CALL(table, cuMemcpy2DUnaligned, &copy);
}

cudaError_t copy_box(const Driver& table, const cudaMemcpy3DParms& box, Stream stream) {
  CUDA_MEMCPY3D copy = {};
  if (const cudaError_t status = to_driver(table, box, &copy); status != cudaSuccess) return status;
  if (copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0) return cudaSuccess;
  return stream ? CUDART_CALL(table, cuMemcpy3DAsync, &copy, *stream) : CUDART_CALL(table, cuMemcpy3D, &copy);
}

cudaError_t memcpy_of(Rule rule, void* to, const void* from, size_t bytes, cudaMemcpyKind kind, Stream stream) {
  return api(rule, [&](const Driver& table) { return copy_row(table, to, from, bytes, kind, stream); });
}

cudaError_t memcpy2d_of(Rule rule, void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                        size_t height, cudaMemcpyKind kind, Stream stream) {
  return api(rule, [&](const Driver& table) {
    return copy_rows(table, to, to_pitch, from, from_pitch, width, height, kind, stream);
  });
}

cudaError_t memcpy3d_of(Rule rule, const cudaMemcpy3DParms* box, Stream stream) {
  if (box == nullptr) return record(cudaErrorInvalidValue);
  return api(rule, [&](const Driver& table) { return copy_box(table, *box, stream); });
}

// The part of a variable that a copy names; it must lie inside the variable.
cudaError_t part_of(const void* symbol, size_t bytes, size_t offset, void** begin) {
  CUdeviceptr base = 0;
  size_t size = 0;
  if (const cudaError_t status = find_variable(symbol, &base, &size); status != cudaSuccess) return status;
  if (offset > size || bytes > size - offset) return cudaErrorInvalidValue;
  *begin = reinterpret_cast<void*>(base + offset);
  return cudaSuccess;
}

cudaError_t to_symbol(Rule rule, const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind,
                      Stream stream) {
  return api(rule, [&](const Driver& table) {
    void* to = nullptr;
    const cudaError_t status = part_of(symbol, bytes, offset, &to);
    return status == cudaSuccess ? copy_row(table, to, from, bytes, kind, stream) : status;
  });
}

cudaError_t from_symbol(Rule rule, void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                        Stream stream) {
  return api(rule, [&](const Driver& table) {
    void* from = nullptr;
    const cudaError_t status = part_of(symbol, bytes, offset, &from);
    return status == cudaSuccess ? copy_row(table, to, from, bytes, kind, stream) : status;
  });
}

cudaError_t peer_copy(void* to, int to_device, const void* from, int from_device, size_t bytes, Stream stream) {
  return api([&](const Driver& table) {
    CUcontext there = nullptr;
    CUcontext here = nullptr;
    if (const cudaError_t status = primary_context(to_device, &there); status != cudaSuccess) return status;
    if (const cudaError_t status = primary_context(from_device, &here); status != cudaSuccess) return status;
    return stream ? CUDART_CALL(table, cuMemcpyPeerAsync, address(to), there, address(from), here, bytes, *stream)
                  : CUDART_CALL(table, cuMemcpyPeer, address(to), there, address(from), here, bytes);
  });
}

constexpr Stream kWait = std::nullopt;

}  // namespace
}  // namespace simulator::cudart

using namespace simulator::cudart;

CUDART_BOTH(cudaMemcpy, _ptds, memcpy_of, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
            (to, from, bytes, kind, kWait))
CUDART_BOTH(cudaMemcpyAsync, _ptsz, memcpy_of,
            (void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream),
            (to, from, bytes, kind, stream))
CUDART_BOTH(cudaMemcpy2D, _ptds, memcpy2d_of,
            (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
             cudaMemcpyKind kind),
            (to, to_pitch, from, from_pitch, width, height, kind, kWait))
CUDART_BOTH(cudaMemcpy2DAsync, _ptsz, memcpy2d_of,
            (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
             cudaMemcpyKind kind, cudaStream_t stream),
            (to, to_pitch, from, from_pitch, width, height, kind, stream))
CUDART_BOTH(cudaMemcpy3D, _ptds, memcpy3d_of, (const cudaMemcpy3DParms* box), (box, kWait))
CUDART_BOTH(cudaMemcpy3DAsync, _ptsz, memcpy3d_of, (const cudaMemcpy3DParms* box, cudaStream_t stream), (box, stream))
CUDART_BOTH(cudaMemcpyToSymbol, _ptds, to_symbol,
            (const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind),
            (symbol, from, bytes, offset, kind, kWait))
CUDART_BOTH(cudaMemcpyToSymbolAsync, _ptsz, to_symbol,
            (const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind,
             cudaStream_t stream),
            (symbol, from, bytes, offset, kind, stream))
CUDART_BOTH(cudaMemcpyFromSymbol, _ptds, from_symbol,
            (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind),
            (to, symbol, bytes, offset, kind, kWait))
CUDART_BOTH(cudaMemcpyFromSymbolAsync, _ptsz, from_symbol,
            (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t stream),
            (to, symbol, bytes, offset, kind, stream))

extern "C" {

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  return peer_copy(to, to_device, from, from_device, bytes, kWait);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  return peer_copy(to, to_device, from, from_device, bytes, stream);
}

cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  if (pointer == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver&) {
    size_t bytes = 0;
    return find_variable(symbol, address_out(pointer), &bytes);
  });
}

cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  if (bytes == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver&) {
    CUdeviceptr begin = 0;
    return find_variable(symbol, &begin, bytes);
  });
}

}  // extern "C"
