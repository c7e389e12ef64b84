// SPDX-License-Identifier: Apache-2.0
#include "simulator/cuda/module/ptx_textures.h"

#include <algorithm>
#include <iterator>

#include "simulator/cuda/memory/array.h"

namespace simulator::cuda {
namespace {

bool set_format(CUarray_format format, unsigned channels, ptx::Texture* out) {
  using Channel = ptx::Texture::Channel;
  const auto set = [&](unsigned bits, Channel channel) {
    out->bits = bits;
    out->channel = channel;
    out->channels = channels;
    return true;
  };
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
      return set(8, Channel::kUnsigned);
    case CU_AD_FORMAT_UNSIGNED_INT16:
      return set(16, Channel::kUnsigned);
    case CU_AD_FORMAT_UNSIGNED_INT32:
      return set(32, Channel::kUnsigned);
    case CU_AD_FORMAT_SIGNED_INT8:
      return set(8, Channel::kSigned);
    case CU_AD_FORMAT_SIGNED_INT16:
      return set(16, Channel::kSigned);
    case CU_AD_FORMAT_SIGNED_INT32:
      return set(32, Channel::kSigned);
    case CU_AD_FORMAT_HALF:
      return set(16, Channel::kFloat);
    case CU_AD_FORMAT_FLOAT:
      return set(32, Channel::kFloat);
    default:
      return false;
  }
}

void set_extent(Bytes width, Bytes height, Bytes depth, ptx::Texture* out) {
  out->extent[0] = static_cast<std::uint32_t>(width);
  out->extent[1] = static_cast<std::uint32_t>(std::max<Bytes>(height, 1));
  out->extent[2] = static_cast<std::uint32_t>(std::max<Bytes>(depth, 1));
}

bool set_memory(const CUDA_RESOURCE_DESC& resource, ptx::Texture* out) {
  if (resource.resType == CU_RESOURCE_TYPE_LINEAR) {
    const auto& linear = resource.res.linear;
    out->address = linear.devPtr;
    out->is_linear = true;
    out->row_pitch = out->slice_pitch = linear.sizeInBytes;
    set_extent(linear.sizeInBytes / element_bytes(linear.format, linear.numChannels), 1, 1, out);
    return set_format(linear.format, linear.numChannels, out);
  }
  if (resource.resType == CU_RESOURCE_TYPE_PITCH2D) {
    const auto& pitched = resource.res.pitch2D;
    out->address = pitched.devPtr;
    out->row_pitch = pitched.pitchInBytes;
    out->slice_pitch = pitched.pitchInBytes * pitched.height;
    set_extent(pitched.width, pitched.height, 1, out);
    return set_format(pitched.format, pitched.numChannels, out);
  }
  const CUarray array = resource.res.array.hArray;
  if (resource.resType != CU_RESOURCE_TYPE_ARRAY || !state().arrays.has(array)) return false;
  out->address = array->address;
  out->row_pitch = array->row();
  out->slice_pitch = array->row() * array->rows();
  set_extent(array->description.Width, array->description.Height, array->description.Depth, out);
  return set_format(array->description.Format, array->description.NumChannels, out);
}

}  // namespace

bool describe_texture(std::uint64_t handle, ptx::Texture* out) {
  const auto found = state().textures.find(handle);
  if (found == state().textures.end()) return false;
  const TextureObject& object = found->second;
  if (!set_memory(object.resource, out)) return false;
  const auto has = [&](unsigned flag) { return (object.texture.flags & flag) != 0; };
  out->is_surface = object.is_surface;
  out->interpolates = object.texture.filterMode == CU_TR_FILTER_MODE_LINEAR;
  out->normalized_coordinates = has(CU_TRSF_NORMALIZED_COORDINATES);
  out->reads_normalized = !has(CU_TRSF_READ_AS_INTEGER) && out->bits < 32;
  out->is_srgb = has(CU_TRSF_SRGB);
  for (int i = 0; i < 3; ++i) out->addressing[i] = static_cast<std::uint32_t>(object.texture.addressMode[i]);
  std::copy(std::begin(object.texture.borderColor), std::end(object.texture.borderColor), std::begin(out->border));
  return true;
}

}  // namespace simulator::cuda
