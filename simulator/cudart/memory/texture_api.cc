// SPDX-License-Identifier: Apache-2.0
// Textures and surfaces: objects over arrays and over plain memory. The driver's structures have flags where the
// runtime's have fields.
#include <algorithm>
#include <iterator>

#include "simulator/cudart/convert.h"
#include "simulator/cudart/session.h"

namespace simulator::cudart {
namespace {

cudaError_t to_driver(const cudaResourceDesc& given, CUDA_RESOURCE_DESC* out) {
  CUDA_RESOURCE_DESC desc = {};
  desc.resType = static_cast<CUresourcetype>(given.resType);
  desc.flags = given.flags;
  Format format;
  switch (given.resType) {
    case cudaResourceTypeArray:
      desc.res.array.hArray = array_of(given.res.array.array);
      break;
    case cudaResourceTypeMipmappedArray:
      desc.res.mipmap.hMipmappedArray = reinterpret_cast<CUmipmappedArray>(given.res.mipmap.mipmap);
      break;
    case cudaResourceTypeLinear:
      if (!to_format(given.res.linear.desc, &format)) return cudaErrorInvalidChannelDescriptor;
      desc.res.linear = {address(given.res.linear.devPtr), format.format, format.channels,
                         given.res.linear.sizeInBytes};
      break;
    case cudaResourceTypePitch2D:
      if (!to_format(given.res.pitch2D.desc, &format)) return cudaErrorInvalidChannelDescriptor;
      desc.res.pitch2D = {address(given.res.pitch2D.devPtr),
                          format.format,
                          format.channels,
                          given.res.pitch2D.width,
                          given.res.pitch2D.height,
                          given.res.pitch2D.pitchInBytes};
      break;
    default:
      return cudaErrorInvalidValue;
  }
  *out = desc;
  return cudaSuccess;
}

cudaResourceDesc from_driver(const CUDA_RESOURCE_DESC& found) {
  cudaResourceDesc desc = {};
  desc.resType = static_cast<cudaResourceType>(found.resType);
  desc.flags = found.flags;
  const auto pointer = [](CUdeviceptr at) { return reinterpret_cast<void*>(at); };
  switch (desc.resType) {
    case cudaResourceTypeArray:
      desc.res.array.array = array_from(found.res.array.hArray);
      break;
    case cudaResourceTypeMipmappedArray:
      desc.res.mipmap.mipmap = reinterpret_cast<cudaMipmappedArray_t>(found.res.mipmap.hMipmappedArray);
      break;
    case cudaResourceTypeLinear:
      desc.res.linear = {pointer(found.res.linear.devPtr),
                         from_format(found.res.linear.format, found.res.linear.numChannels),
                         found.res.linear.sizeInBytes};
      break;
    default:
      desc.res.pitch2D = {pointer(found.res.pitch2D.devPtr),
                          from_format(found.res.pitch2D.format, found.res.pitch2D.numChannels), found.res.pitch2D.width,
                          found.res.pitch2D.height, found.res.pitch2D.pitchInBytes};
  }
  return desc;
}

CUDA_TEXTURE_DESC to_driver(const cudaTextureDesc& given) {
  CUDA_TEXTURE_DESC desc = {};
  for (int i = 0; i < 3; ++i) desc.addressMode[i] = static_cast<CUaddress_mode>(given.addressMode[i]);
  desc.filterMode = static_cast<CUfilter_mode>(given.filterMode);
  desc.flags = (given.readMode == cudaReadModeElementType ? CU_TRSF_READ_AS_INTEGER : 0u) |
               (given.normalizedCoords != 0 ? CU_TRSF_NORMALIZED_COORDINATES : 0u) |
               (given.sRGB != 0 ? CU_TRSF_SRGB : 0u) |
               (given.disableTrilinearOptimization != 0 ? CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION : 0u) |
               (given.seamlessCubemap != 0 ? CU_TRSF_SEAMLESS_CUBEMAP : 0u);
  desc.maxAnisotropy = given.maxAnisotropy;
  desc.mipmapFilterMode = static_cast<CUfilter_mode>(given.mipmapFilterMode);
  desc.mipmapLevelBias = given.mipmapLevelBias;
  desc.minMipmapLevelClamp = given.minMipmapLevelClamp;
  desc.maxMipmapLevelClamp = given.maxMipmapLevelClamp;
  std::copy(std::begin(given.borderColor), std::end(given.borderColor), std::begin(desc.borderColor));
  return desc;
}

cudaTextureDesc from_driver(const CUDA_TEXTURE_DESC& found) {
  cudaTextureDesc desc = {};
  const auto has = [&](unsigned flag) { return (found.flags & flag) != 0 ? 1 : 0; };
  for (int i = 0; i < 3; ++i) desc.addressMode[i] = static_cast<cudaTextureAddressMode>(found.addressMode[i]);
  desc.filterMode = static_cast<cudaTextureFilterMode>(found.filterMode);
  desc.readMode = has(CU_TRSF_READ_AS_INTEGER) != 0 ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
  desc.normalizedCoords = has(CU_TRSF_NORMALIZED_COORDINATES);
  desc.sRGB = has(CU_TRSF_SRGB);
  desc.disableTrilinearOptimization = has(CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION);
  desc.seamlessCubemap = has(CU_TRSF_SEAMLESS_CUBEMAP);
  desc.maxAnisotropy = found.maxAnisotropy;
  desc.mipmapFilterMode = static_cast<cudaTextureFilterMode>(found.mipmapFilterMode);
  desc.mipmapLevelBias = found.mipmapLevelBias;
  desc.minMipmapLevelClamp = found.minMipmapLevelClamp;
  desc.maxMipmapLevelClamp = found.maxMipmapLevelClamp;
  std::copy(std::begin(found.borderColor), std::end(found.borderColor), std::begin(desc.borderColor));
  return desc;
}

}  // namespace
}  // namespace simulator::cudart

using namespace simulator::cudart;

extern "C" {

cudaError_t cudaCreateTextureObject(cudaTextureObject_t* object, const cudaResourceDesc* resource,
                                    const cudaTextureDesc* texture, const cudaResourceViewDesc* view) {
  if (object == nullptr || resource == nullptr || texture == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    CUDA_RESOURCE_DESC of;
    if (const cudaError_t status = to_driver(*resource, &of); status != cudaSuccess) return status;
    const CUDA_TEXTURE_DESC how = to_driver(*texture);
    return CUDART_CALL(table, cuTexObjectCreate, object, &of, &how, as_driver<const CUDA_RESOURCE_VIEW_DESC*>(view));
  });
}

cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuTexObjectDestroy, object); });
}

cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* resource, cudaTextureObject_t object) {
  if (resource == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    CUDA_RESOURCE_DESC found = {};
    const cudaError_t status = CUDART_CALL(table, cuTexObjectGetResourceDesc, &found, object);
    if (status == cudaSuccess) *resource = from_driver(found);
    return status;
  });
}

cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* texture, cudaTextureObject_t object) {
  if (texture == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    CUDA_TEXTURE_DESC found = {};
    const cudaError_t status = CUDART_CALL(table, cuTexObjectGetTextureDesc, &found, object);
    if (status == cudaSuccess) *texture = from_driver(found);
    return status;
  });
}

cudaError_t cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc* view, cudaTextureObject_t object) {
  return api([&](const Driver& table) {
    return CUDART_CALL(table, cuTexObjectGetResourceViewDesc, as_driver<CUDA_RESOURCE_VIEW_DESC*>(view), object);
  });
}

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* object, const cudaResourceDesc* resource) {
  if (object == nullptr || resource == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    CUDA_RESOURCE_DESC of;
    const cudaError_t status = to_driver(*resource, &of);
    return status == cudaSuccess ? CUDART_CALL(table, cuSurfObjectCreate, object, &of) : status;
  });
}

cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuSurfObjectDestroy, object); });
}

cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* resource, cudaSurfaceObject_t object) {
  if (resource == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    CUDA_RESOURCE_DESC found = {};
    const cudaError_t status = CUDART_CALL(table, cuSurfObjectGetResourceDesc, &found, object);
    if (status == cudaSuccess) *resource = from_driver(found);
    return status;
  });
}

cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t* width, const cudaChannelFormatDesc* desc, int device) {
  if (width == nullptr || desc == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    Format format;
    if (!to_format(*desc, &format)) return cudaErrorInvalidChannelDescriptor;
    return CUDART_CALL(table, cuDeviceGetTexture1DLinearMaxWidth, width, format.format, format.channels, device);
  });
}

}  // extern "C"
