// SPDX-License-Identifier: Apache-2.0
// Arrays, and the objects by which kernels read and write them and linear memory.
#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "arrays and textures";
constexpr std::size_t kWide = 64, kHigh = 16, kDeep = 4;
constexpr std::size_t kRow = kWide * 4;

CUarray array(Session& session, std::size_t width, std::size_t height, std::size_t depth, unsigned flags = 0) {
  const CUDA_ARRAY3D_DESCRIPTOR wanted{width, height, depth, CU_AD_FORMAT_UNSIGNED_INT32, 1, flags};
  CUarray made = nullptr;
  OK(session.driver().cuArray3DCreate(&made, &wanted));
  return made;
}

CUDA_RESOURCE_DESC linear(CUdeviceptr at, std::size_t bytes) {
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear = {at, CU_AD_FORMAT_UNSIGNED_INT32, 1, bytes};
  return resource;
}

CUDA_RESOURCE_DESC over(CUarray array) {
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  return resource;
}

std::vector<std::uint32_t> counting(std::size_t words) {
  std::vector<std::uint32_t> result(words);
  for (std::size_t i = 0; i < words; ++i) result[i] = static_cast<std::uint32_t>(i * 7 + 1);
  return result;
}

RULE(arrays_keep_what_is_copied, "Data copied into an array of one dimension is copied out unchanged",
     "Memory Management: cuMemcpyDtoA, cuMemcpyAtoD") {
  const CUarray made = array(session, kWide, 0, 0);
  const CUdeviceptr at = session.allocate(2 * kRow);
  session.write(at, counting(kWide));
  OK(cu.cuMemcpyDtoA(made, 0, at, kRow));
  OK(cu.cuMemcpyAtoD(at + kRow, made, 16, kRow - 16));
  const std::vector<std::uint32_t> all = counting(kWide);
  HOLDS(session.read(at + kRow, kWide - 4) == std::vector<std::uint32_t>(all.begin() + 4, all.end()),
        "they are the same words");
}

RULE(arrays_are_copied_by_the_host, "An array is written from the host and read by the host",
     "Memory Management: cuMemcpyHtoA, cuMemcpyAtoH") {
  const CUarray made = array(session, kWide, 0, 0);
  const std::vector<std::uint32_t> given = counting(kWide);
  std::vector<std::uint32_t> back(kWide);
  OK(cu.cuMemcpyHtoA(made, 0, given.data(), kRow));
  OK(cu.cuMemcpyAtoH(back.data(), made, 0, kRow));
  HOLDS(back == given, "they are the same words");
}

RULE(boxes_of_arrays_keep_their_place, "A box is copied to the given position in an array of three dimensions",
     "Memory Management: cuMemcpy3D") {
  const CUarray made = array(session, kWide, kHigh, kDeep);
  const std::vector<std::uint32_t> given = counting(6 * 3 * 2);
  std::vector<std::uint32_t> back(given.size());
  CUDA_MEMCPY3D in = {};
  in.srcMemoryType = CU_MEMORYTYPE_HOST;
  in.srcHost = given.data();
  in.srcPitch = 24;
  in.srcHeight = 3;
  in.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  in.dstArray = made;
  in.dstXInBytes = 8;
  in.dstY = 5;
  in.dstZ = 1;
  in.WidthInBytes = 24;
  in.Height = 3;
  in.Depth = 2;
  OK(cu.cuMemcpy3D(&in));
  CUDA_MEMCPY3D out = {};
  out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  out.srcArray = made;
  out.srcXInBytes = 8;
  out.srcY = 5;
  out.srcZ = 1;
  out.dstMemoryType = CU_MEMORYTYPE_HOST;
  out.dstHost = back.data();
  out.dstPitch = 24;
  out.dstHeight = 3;
  out.WidthInBytes = 24;
  out.Height = 3;
  out.Depth = 2;
  OK(cu.cuMemcpy3D(&out));
  HOLDS(back == given, "they are the same words");
}

RULE(arrays_have_an_end, "A copy past the end of an array is refused", "Memory Management: cuMemcpyHtoA",
     .open = "which error") {
  const std::vector<std::uint32_t> given = counting(kWide + 1);
  FAILS(cu.cuMemcpyHtoA(array(session, kWide, 0, 0), 4, given.data(), kRow));
}

RULE(arrays_tell_what_they_are, "An array returns the description that it was made from",
     "Memory Management: cuArray3DGetDescriptor") {
  CUDA_ARRAY3D_DESCRIPTOR told = {};
  OK(cu.cuArray3DGetDescriptor(&told, array(session, kWide, kHigh, kDeep)));
  HOLDS(told.Width == kWide && told.Height == kHigh && told.Depth == kDeep, "its sizes are those asked for");
  HOLDS(told.Format == CU_AD_FORMAT_UNSIGNED_INT32 && told.NumChannels == 1, "so are its elements");
}

RULE(array_elements_have_no_three_channels, "An element has 1, 2 or 4 channels", "Memory Management: cuArrayCreate",
     .open = "which error") {
  const CUDA_ARRAY_DESCRIPTOR wanted{kWide, kHigh, CU_AD_FORMAT_FLOAT, 3};
  CUarray made = nullptr;
  FAILS(cu.cuArrayCreate(&made, &wanted));
}

RULE(texture_tells_its_resource, "A texture object returns the memory that it reads",
     "Texture Object Management: cuTexObjectGetResourceDesc") {
  const CUdeviceptr at = session.allocate(kRow);
  const CUDA_RESOURCE_DESC resource = linear(at, kRow);
  const CUDA_TEXTURE_DESC reading = {};
  CUtexObject made = 0;
  OK(cu.cuTexObjectCreate(&made, &resource, &reading, nullptr));
  CUDA_RESOURCE_DESC told = {};
  OK(cu.cuTexObjectGetResourceDesc(&told, made));
  HOLDS(told.resType == CU_RESOURCE_TYPE_LINEAR && told.res.linear.devPtr == at && told.res.linear.sizeInBytes == kRow,
        "it is the range that was given");
  OK(cu.cuTexObjectDestroy(made));
}

RULE(texture_memory_is_aligned, "Linear memory of a texture begins at the alignment of textures",
     "Texture Object Management: cuTexObjectCreate", .open = "which error") {
  const CUDA_RESOURCE_DESC resource = linear(session.allocate(2 * kRow) + 4, kRow);
  const CUDA_TEXTURE_DESC reading = {};
  CUtexObject made = 0;
  FAILS(cu.cuTexObjectCreate(&made, &resource, &reading, nullptr));
}

RULE(texture_views_are_of_arrays,
     "A view of a resource is of an array; one of linear memory is refused or not looked at",
     "Texture Object Management: cuTexObjectCreate", .open = "whether it is refused, and which error") {
  const CUDA_RESOURCE_DESC resource = linear(session.allocate(kRow), kRow);
  const CUDA_TEXTURE_DESC reading = {};
  CUDA_RESOURCE_VIEW_DESC view = {};
  view.format = CU_RES_VIEW_FORMAT_UINT_1X32;
  view.width = kWide;
  CUtexObject made = 0;
  if (MAY_FAIL(cu.cuTexObjectCreate(&made, &resource, &reading, &view))) return;
  CUDA_RESOURCE_DESC told = {};
  OK(cu.cuTexObjectGetResourceDesc(&told, made));
  HOLDS(told.resType == CU_RESOURCE_TYPE_LINEAR, "it is of linear memory");
  OK(cu.cuTexObjectDestroy(made));
}

RULE(surfaces_are_over_arrays, "A surface object uses an array that was made for it",
     "Surface Object Management: cuSurfObjectCreate") {
  const CUDA_RESOURCE_DESC resource = over(array(session, kWide, kHigh, 0, CUDA_ARRAY3D_SURFACE_LDST));
  CUsurfObject made = 0;
  OK(cu.cuSurfObjectCreate(&made, &resource));
  OK(cu.cuSurfObjectDestroy(made));
}

RULE(surfaces_are_not_over_ranges, "A surface object cannot use linear memory",
     "Surface Object Management: cuSurfObjectCreate", .open = "which error") {
  const CUDA_RESOURCE_DESC resource = linear(session.allocate(kRow), kRow);
  CUsurfObject made = 0;
  FAILS(cu.cuSurfObjectCreate(&made, &resource));
}

}  // namespace
}  // namespace conformance
