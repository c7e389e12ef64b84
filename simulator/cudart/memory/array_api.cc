// SPDX-License-Identifier: Apache-2.0
// Arrays and mipmapped arrays: creation, description, release.
#include "simulator/cudart/convert.h"
#include "simulator/cudart/session.h"

namespace simulator::cudart {
namespace {

cudaError_t create(cudaArray_t* array, const cudaChannelFormatDesc* desc, cudaExtent extent, unsigned flags) {
  if (array == nullptr || desc == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    Format format;
    if (!to_format(*desc, &format)) return cudaErrorInvalidChannelDescriptor;
    const CUDA_ARRAY3D_DESCRIPTOR wanted = {extent.width,  extent.height,   extent.depth,
                                            format.format, format.channels, flags};
    CUarray made = nullptr;
    const cudaError_t status = CUDART_CALL(table, cuArray3DCreate, &made, &wanted);
    if (status == cudaSuccess) *array = array_from(made);
    return status;
  });
}

template <typename Read>
cudaError_t described(cudaArray_const_t array, Read read) {
  return api([&](const Driver& table) {
    CUDA_ARRAY3D_DESCRIPTOR desc = {};
    const cudaError_t status = CUDART_CALL(table, cuArray3DGetDescriptor, &desc, array_of(array));
    if (status == cudaSuccess) read(desc);
    return status;
  });
}

CUmipmappedArray mipmap_of(cudaMipmappedArray_const_t mipmap) {
  return reinterpret_cast<CUmipmappedArray>(const_cast<cudaMipmappedArray_t>(mipmap));
}

}  // namespace
}  // namespace simulator::cudart

using namespace simulator::cudart;

extern "C" {

cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* desc, size_t width, size_t height,
                            unsigned flags) {
  return create(array, desc, {width, height, 0}, flags);
}

cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* desc, cudaExtent extent,
                              unsigned flags) {
  return create(array, desc, extent, flags);
}

cudaError_t cudaFreeArray(cudaArray_t array) {
  return api([&](const Driver& table) {
    return array == nullptr ? cudaSuccess : CUDART_CALL(table, cuArrayDestroy, array_of(array));
  });
}

cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* desc, cudaExtent* extent, unsigned* flags, cudaArray_t array) {
  return described(array, [&](const CUDA_ARRAY3D_DESCRIPTOR& found) {
    if (desc != nullptr) *desc = from_format(found.Format, found.NumChannels);
    if (extent != nullptr) *extent = {found.Width, found.Height, found.Depth};
    if (flags != nullptr) *flags = found.Flags;
  });
}

cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* desc, cudaArray_const_t array) {
  if (desc == nullptr) return record(cudaErrorInvalidValue);
  return described(array,
                   [&](const CUDA_ARRAY3D_DESCRIPTOR& found) { *desc = from_format(found.Format, found.NumChannels); });
}

cudaError_t cudaArrayGetPlane(cudaArray_t* plane, cudaArray_t array, unsigned index) {
  return api([&](const Driver& table) {
    return CUDART_CALL(table, cuArrayGetPlane, reinterpret_cast<CUarray*>(plane), array_of(array), index);
  });
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t* mipmap, const cudaChannelFormatDesc* desc, cudaExtent extent,
                                     unsigned levels, unsigned flags) {
  if (mipmap == nullptr || desc == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    Format format;
    if (!to_format(*desc, &format)) return cudaErrorInvalidChannelDescriptor;
    const CUDA_ARRAY3D_DESCRIPTOR wanted = {extent.width,  extent.height,   extent.depth,
                                            format.format, format.channels, flags};
    return CUDART_CALL(table, cuMipmappedArrayCreate, reinterpret_cast<CUmipmappedArray*>(mipmap), &wanted, levels);
  });
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t mipmap) {
  return api([&](const Driver& table) {
    return mipmap == nullptr ? cudaSuccess : CUDART_CALL(table, cuMipmappedArrayDestroy, mipmap_of(mipmap));
  });
}

cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t* level, cudaMipmappedArray_const_t mipmap, unsigned number) {
  return api([&](const Driver& table) {
    return CUDART_CALL(table, cuMipmappedArrayGetLevel, reinterpret_cast<CUarray*>(level), mipmap_of(mipmap), number);
  });
}

}  // extern "C"
