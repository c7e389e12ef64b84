// SPDX-License-Identifier: Apache-2.0
// Texture and surface objects over arrays and over linear memory. A kernel that is given a texture reads everything
// that it describes; one that is given a surface reads and writes its array. If that memory no longer exists, the
// kernel faults as with an address. Sampling parameters are checked and have no effect. Texture references (cuTexRef*)
// and mipmaps are refused.
#include "simulator/cuda/memory/array.h"
#include "simulator/cuda/memory/memory_kinds.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

// CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT and CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT (device_attributes.cc).
constexpr Bytes kAlignment = 512, kPitchAlignment = 32;

// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH and those of two dimensions: CUDA Programming Guide, "Technical
// specifications per compute capability".
constexpr Bytes kWidestLinear = Bytes{1} << 27, kWidest2d = 131072, kHighest2d = 65000;

CUresult check_memory(Call& call, CUdeviceptr at) {
  if (at == 0 || at % kAlignment != 0) return CUDA_ERROR_INVALID_VALUE;
  return memory_kind_at(call.machine(), at) == MemoryKind::kPageable ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult fetch_of_linear(Call& call, const CUDA_RESOURCE_DESC& resource, Fetch* out) {
  const auto& linear = resource.res.linear;
  const Bytes element = element_bytes(linear.format, linear.numChannels);
  if (element == 0 || linear.sizeInBytes < element || linear.sizeInBytes / element > kWidestLinear)
    return CUDA_ERROR_INVALID_VALUE;
  *out = {linear.devPtr, {.width = linear.sizeInBytes, .row_pitch = linear.sizeInBytes}};
  return check_memory(call, linear.devPtr);
}

CUresult fetch_of_pitched(Call& call, const CUDA_RESOURCE_DESC& resource, Fetch* out) {
  const auto& pitched = resource.res.pitch2D;
  const Bytes element = element_bytes(pitched.format, pitched.numChannels);
  if (element == 0 || pitched.width == 0 || pitched.height == 0 || pitched.width > kWidest2d ||
      pitched.height > kHighest2d || pitched.pitchInBytes % kPitchAlignment != 0 ||
      pitched.pitchInBytes < pitched.width * element)
    return CUDA_ERROR_INVALID_VALUE;
  *out = {pitched.devPtr,
          {.width = pitched.width * element, .height = pitched.height, .row_pitch = pitched.pitchInBytes}};
  return check_memory(call, pitched.devPtr);
}

CUresult fetch_of_array(Call& call, const CUDA_RESOURCE_DESC& resource, Fetch* out) {
  const CUarray array = resource.res.array.hArray;
  if (!call.state().arrays.has(array)) return CUDA_ERROR_INVALID_VALUE;
  *out = {array->address, {.width = array->bytes(), .row_pitch = array->bytes()}};
  return CUDA_SUCCESS;
}

CUresult fetch_of(Call& call, const CUDA_RESOURCE_DESC& resource, Fetch* out) {
  if (resource.flags != 0) return CUDA_ERROR_INVALID_VALUE;
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_LINEAR:
      return fetch_of_linear(call, resource, out);
    case CU_RESOURCE_TYPE_PITCH2D:
      return fetch_of_pitched(call, resource, out);
    case CU_RESOURCE_TYPE_ARRAY:
      return fetch_of_array(call, resource, out);
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Nothing if the handle is not of the requested kind, or of another context.
const TextureObject* find(Call& call, unsigned long long handle, bool is_surface) {
  const auto found = call.state().textures.find(handle);
  if (found == call.state().textures.end()) return nullptr;
  const TextureObject& object = found->second;
  return object.is_surface != is_surface || object.context != call.context() ? nullptr : &object;
}

CUresult destroy(unsigned long long handle, bool is_surface, const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  if (find(call, handle, is_surface) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  call.state().textures.erase(handle);
  call.machine().remove_texture(handle);
  return CUDA_SUCCESS;
}

CUresult describe(CUDA_RESOURCE_DESC* out, unsigned long long handle, bool is_surface,
                  const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  const TextureObject* const found = find(call, handle, is_surface);
  if (out == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = found->resource;
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                                         const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC* view) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || resource == nullptr || texture == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (view != nullptr)
    return resource->resType == CU_RESOURCE_TYPE_ARRAY ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  Fetch fetch;
  if (const CUresult result = fetch_of(call, *resource, &fetch); result != CUDA_SUCCESS) return result;
  *out = call.machine().add_texture(fetch, false);
  call.state().textures[*out] = {*resource, *texture, false, call.context()};
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuTexObjectDestroy(CUtexObject handle) { return destroy(handle, false); }

SIMULATED_API CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUtexObject handle) {
  return describe(out, handle, false);
}

SIMULATED_API CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* out, CUtexObject handle) {
  Call call;
  if (!call) return call.result();
  const TextureObject* const found = find(call, handle, false);
  if (out == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = found->texture;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || resource == nullptr || resource->resType != CU_RESOURCE_TYPE_ARRAY)
    return CUDA_ERROR_INVALID_VALUE;
  Fetch fetch;
  if (const CUresult result = fetch_of(call, *resource, &fetch); result != CUDA_SUCCESS) return result;
  if ((resource->res.array.hArray->description.Flags & CUDA_ARRAY3D_SURFACE_LDST) == 0) return CUDA_ERROR_INVALID_VALUE;
  *out = call.machine().add_texture(fetch, true);
  call.state().textures[*out] = {*resource, {}, true, call.context()};
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuSurfObjectDestroy(CUsurfObject handle) { return destroy(handle, true); }

SIMULATED_API CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUsurfObject handle) {
  return describe(out, handle, true);
}
