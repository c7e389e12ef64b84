// SPDX-License-Identifier: Apache-2.0
#include "simulator/cudart/convert.h"

#include <array>

#include "simulator/cudart/session.h"

namespace simulator::cudart {
namespace {

struct ChannelFormat {
  cudaChannelFormatKind kind;
  int bits;
  CUarray_format format;
};

constexpr std::array<ChannelFormat, 8> kKnown = {{{cudaChannelFormatKindUnsigned, 8, CU_AD_FORMAT_UNSIGNED_INT8},
                                                  {cudaChannelFormatKindUnsigned, 16, CU_AD_FORMAT_UNSIGNED_INT16},
                                                  {cudaChannelFormatKindUnsigned, 32, CU_AD_FORMAT_UNSIGNED_INT32},
                                                  {cudaChannelFormatKindSigned, 8, CU_AD_FORMAT_SIGNED_INT8},
                                                  {cudaChannelFormatKindSigned, 16, CU_AD_FORMAT_SIGNED_INT16},
                                                  {cudaChannelFormatKindSigned, 32, CU_AD_FORMAT_SIGNED_INT32},
                                                  {cudaChannelFormatKindFloat, 16, CU_AD_FORMAT_HALF},
                                                  {cudaChannelFormatKindFloat, 32, CU_AD_FORMAT_FLOAT}}};

cudaError_t element_of(const Driver& table, CUarray array, size_t* bytes) {
  *bytes = 1;
  if (array == nullptr) return cudaSuccess;
  CUDA_ARRAY3D_DESCRIPTOR desc = {};
  const cudaError_t status = CUDART_CALL(table, cuArray3DGetDescriptor, &desc, array);
  if (status == cudaSuccess) *bytes = element_bytes(desc.Format, desc.NumChannels);
  return status == cudaSuccess && *bytes == 0 ? cudaErrorNotSupported : status;
}

bool is_host(CUmemorytype type) { return type == CU_MEMORYTYPE_HOST; }

cudaMemcpyKind kind_of(const CUDA_MEMCPY3D& copy) {
  if (copy.srcMemoryType == CU_MEMORYTYPE_UNIFIED || copy.dstMemoryType == CU_MEMORYTYPE_UNIFIED)
    return cudaMemcpyDefault;
  if (is_host(copy.srcMemoryType)) return is_host(copy.dstMemoryType) ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
  return is_host(copy.dstMemoryType) ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

}  // namespace

bool to_format(const cudaChannelFormatDesc& desc, Format* out) {
  const std::array<int, 4> bits = {desc.x, desc.y, desc.z, desc.w};
  unsigned channels = 0;
  while (channels < 4 && bits[channels] != 0) ++channels;
  for (unsigned i = 0; i < 4; ++i) {
    if (bits[i] != (i < channels ? desc.x : 0)) return false;
  }
  if (channels != 1 && channels != 2 && channels != 4) return false;
  for (const ChannelFormat& known : kKnown) {
    if (known.kind != desc.f || known.bits != desc.x) continue;
    *out = {known.format, channels};
    return true;
  }
  return false;
}

cudaChannelFormatDesc from_format(CUarray_format format, unsigned channels) {
  for (const ChannelFormat& known : kKnown) {
    if (known.format != format) continue;
    return {known.bits, channels > 1 ? known.bits : 0, channels > 2 ? known.bits : 0, channels > 3 ? known.bits : 0,
            known.kind};
  }
  return {0, 0, 0, 0, cudaChannelFormatKindNone};
}

size_t element_bytes(CUarray_format format, unsigned channels) {
  for (const ChannelFormat& known : kKnown) {
    if (known.format == format) return static_cast<size_t>(known.bits) / 8 * channels;
  }
  return 0;
}

bool is_kind(cudaMemcpyKind kind) { return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault; }

CUmemorytype source_type(cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault) return CU_MEMORYTYPE_UNIFIED;
  return kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

CUmemorytype destination_type(cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault) return CU_MEMORYTYPE_UNIFIED;
  return kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

cudaError_t to_driver(const Driver& table, const cudaMemcpy3DParms& box, CUDA_MEMCPY3D* out) {
  if (!is_kind(box.kind)) return cudaErrorInvalidMemcpyDirection;
  size_t from_bytes = 1;
  size_t to_bytes = 1;
  cudaError_t status = element_of(table, array_of(box.srcArray), &from_bytes);
  if (status == cudaSuccess) status = element_of(table, array_of(box.dstArray), &to_bytes);
  if (status != cudaSuccess) return status;
  if (box.srcArray != nullptr && box.dstArray != nullptr && from_bytes != to_bytes) return cudaErrorInvalidValue;
  CUDA_MEMCPY3D copy = {};
  copy.srcXInBytes = box.srcPos.x * from_bytes;
  copy.srcY = box.srcPos.y;
  copy.srcZ = box.srcPos.z;
  copy.srcMemoryType = box.srcArray != nullptr ? CU_MEMORYTYPE_ARRAY : source_type(box.kind);
  copy.srcArray = array_of(box.srcArray);
  copy.srcHost = box.srcPtr.ptr;
  copy.srcDevice = address(box.srcPtr.ptr);
  copy.srcPitch = box.srcPtr.pitch;
  copy.srcHeight = box.srcPtr.ysize;
  copy.dstXInBytes = box.dstPos.x * to_bytes;
  copy.dstY = box.dstPos.y;
  copy.dstZ = box.dstPos.z;
  copy.dstMemoryType = box.dstArray != nullptr ? CU_MEMORYTYPE_ARRAY : destination_type(box.kind);
  copy.dstArray = array_of(box.dstArray);
  copy.dstHost = box.dstPtr.ptr;
  copy.dstDevice = address(box.dstPtr.ptr);
  copy.dstPitch = box.dstPtr.pitch;
  copy.dstHeight = box.dstPtr.ysize;
  copy.WidthInBytes = box.extent.width * (box.srcArray != nullptr ? from_bytes : to_bytes);
  copy.Height = box.extent.height;
  copy.Depth = box.extent.depth;
  *out = copy;
  return cudaSuccess;
}

cudaError_t from_driver(const Driver& table, const CUDA_MEMCPY3D& copy, cudaMemcpy3DParms* out) {
  const bool from_array = copy.srcMemoryType == CU_MEMORYTYPE_ARRAY;
  const bool to_array = copy.dstMemoryType == CU_MEMORYTYPE_ARRAY;
  size_t from_bytes = 1;
  size_t to_bytes = 1;
  cudaError_t status = element_of(table, from_array ? copy.srcArray : nullptr, &from_bytes);
  if (status == cudaSuccess) status = element_of(table, to_array ? copy.dstArray : nullptr, &to_bytes);
  if (status != cudaSuccess) return status;
  cudaMemcpy3DParms box = {};
  const auto pointer = [](CUmemorytype type, const void* host, CUdeviceptr device) {
    return is_host(type) ? const_cast<void*>(host) : reinterpret_cast<void*>(device);
  };
  box.srcPos = {copy.srcXInBytes / from_bytes, copy.srcY, copy.srcZ};
  box.dstPos = {copy.dstXInBytes / to_bytes, copy.dstY, copy.dstZ};
  if (from_array) {
    box.srcArray = array_from(copy.srcArray);
  } else {
    box.srcPtr = {pointer(copy.srcMemoryType, copy.srcHost, copy.srcDevice), copy.srcPitch, copy.WidthInBytes,
                  copy.srcHeight};
  }
  if (to_array) {
    box.dstArray = array_from(copy.dstArray);
  } else {
    box.dstPtr = {pointer(copy.dstMemoryType, copy.dstHost, copy.dstDevice), copy.dstPitch, copy.WidthInBytes,
                  copy.dstHeight};
  }
  box.extent = {copy.WidthInBytes / (from_array ? from_bytes : to_bytes), copy.Height, copy.Depth};
  box.kind = kind_of(copy);
  *out = box;
  return cudaSuccess;
}

CUDA_MEMCPY3D row_of(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = source_type(kind);
  copy.srcHost = from;
  copy.srcDevice = address(from);
  copy.srcPitch = bytes;
  copy.srcHeight = 1;
  copy.dstMemoryType = destination_type(kind);
  copy.dstHost = to;
  copy.dstDevice = address(to);
  copy.dstPitch = bytes;
  copy.dstHeight = 1;
  copy.WidthInBytes = bytes;
  copy.Height = 1;
  copy.Depth = 1;
  return copy;
}

}  // namespace simulator::cudart
