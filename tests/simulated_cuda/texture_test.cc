// SPDX-License-Identifier: Apache-2.0
// Arrays, textures and surfaces.
#include <cstring>

#include "tests/simulated_cuda/device_fixture.h"
#include "tests/simulated_cuda/ptx.h"

namespace {

constexpr const char* kFetch =
    ".version 8.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry fetch(.param .u64 out, .param .u64 texture)\n{\n  ret;\n}\n";

class TextureTest : public DeviceTest {
 protected:
  static constexpr std::size_t kBytes = 65536;

  static CUDA_RESOURCE_DESC linear(CUdeviceptr at, std::size_t bytes = kBytes) {
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear = {at, CU_AD_FORMAT_UNSIGNED_INT32, 1, bytes};
    return resource;
  }

  static CUDA_RESOURCE_DESC over(CUarray array) {
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    return resource;
  }

  static CUtexObject texture(const CUDA_RESOURCE_DESC& resource) {
    const CUDA_TEXTURE_DESC reading{};
    CUtexObject made = 0;
    EXPECT_OK(cuTexObjectCreate(&made, &resource, &reading, nullptr));
    return made;
  }

  static CUarray array(std::size_t width, std::size_t height, std::size_t depth = 0, unsigned flags = 0) {
    const CUDA_ARRAY3D_DESCRIPTOR wanted{width, height, depth, CU_AD_FORMAT_UNSIGNED_INT32, 1, flags};
    CUarray made = nullptr;
    EXPECT_OK(cuArray3DCreate(&made, &wanted));
    return made;
  }

  // The results that a kernel computes from the texture and writes to `out`.
  static std::vector<unsigned> fetched(CUtexObject from, CUdeviceptr out) {
    CUmodule module = nullptr;
    CUfunction fetch = nullptr;
    EXPECT_OK(cuModuleLoadData(&module, kFetch));
    EXPECT_OK(cuModuleGetFunction(&fetch, module, "fetch"));
    EXPECT_OK(cuMemsetD32(out, 0, 1024));  // a kernel that mixes also reads the former contents
    void* parameters[] = {&out, &from};
    EXPECT_OK(cuLaunchKernel(fetch, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
    return read<unsigned>(out, 16);
  }

  static std::vector<unsigned> words(std::size_t count, unsigned first) {
    std::vector<unsigned> result(count);
    for (std::size_t i = 0; i < count; ++i) result[i] = first + static_cast<unsigned>(i);
    return result;
  }
};

TEST_F(TextureTest, AKernelComputesFromWhatItsTextureReadsAndChangesNothingOfIt) {
  const CUdeviceptr from = allocate(kBytes);
  const CUdeviceptr out = allocate(4096);
  const std::vector<unsigned> first = words(kBytes / 4, 1), second = words(kBytes / 4, 2);
  const CUtexObject reads = texture(linear(from));
  write(from, first);
  const auto of_first = fetched(reads, out);
  EXPECT_EQ(read<unsigned>(from, kBytes / 4), first);
  write(from, second);
  EXPECT_NE(fetched(reads, out), of_first);
  write(from, first);
  EXPECT_EQ(fetched(reads, out), of_first);
}

TEST_F(TextureTest, OnlyWhatItDescribesIsRead) {
  const CUdeviceptr from = allocate(kBytes);
  const CUdeviceptr out = allocate(4096);
  write(from, words(kBytes / 4, 1));
  const CUtexObject half = texture(linear(from, kBytes / 2));
  CUDA_RESOURCE_DESC rows{};
  rows.resType = CU_RESOURCE_TYPE_PITCH2D;
  rows.res.pitch2D = {from, CU_AD_FORMAT_UNSIGNED_INT32, 1, 100, 16, 512};
  const CUtexObject columns = texture(rows);
  const auto of_half = fetched(half, out), of_columns = fetched(columns, out);
  EXPECT_NE(of_half, of_columns);
  write(from + kBytes / 2, words(16, 7));  // after both
  write(from + 400, words(28, 7));         // between two rows
  EXPECT_EQ(fetched(columns, out), of_columns);
  EXPECT_NE(fetched(half, out), of_half);
}

TEST_F(TextureTest, WhatItReadsMayNotBeAway) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr at = 0;
  ASSERT_OK(cuMemCreate(&handle, kPage, &properties, 0));
  ASSERT_OK(cuMemAddressReserve(&at, kPage, 0, 0, 0));
  ASSERT_OK(cuMemMap(at, kPage, 0, handle, 0));
  CUmemAccessDesc both{};
  both.location = properties.location;
  both.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ASSERT_OK(cuMemSetAccess(at, kPage, &both, 1));
  const CUtexObject reads = texture(linear(at));
  CUdeviceptr out = allocate(4096);
  ASSERT_OK(cuMemUnmap(at, kPage));
  CUmodule module = nullptr;
  CUfunction fetch = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kFetch));
  ASSERT_OK(cuModuleGetFunction(&fetch, module, "fetch"));
  CUtexObject given = reads;
  void* parameters[] = {&out, &given};
  EXPECT_OK(cuLaunchKernel(fetch, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(TextureTest, DescriptionsThatDoNotHoldAreRefused) {
  const CUDA_TEXTURE_DESC reading{};
  const CUDA_RESOURCE_VIEW_DESC view{};
  const CUdeviceptr at = allocate(kBytes);
  CUtexObject made = 0;
  const auto refused = [&](const CUDA_RESOURCE_DESC& resource) {
    return cuTexObjectCreate(&made, &resource, &reading, nullptr) == CUDA_ERROR_INVALID_VALUE;
  };
  EXPECT_TRUE(refused(linear(at + 4)));
  EXPECT_TRUE(refused(linear(0)));
  EXPECT_TRUE(refused(linear(at, 0)));
  CUDA_RESOURCE_DESC resource = linear(at);
  resource.res.linear.numChannels = 3;
  EXPECT_TRUE(refused(resource));
  resource = linear(at);
  resource.flags = 1;
  EXPECT_TRUE(refused(resource));
  EXPECT_TRUE(refused(over(nullptr)));
  resource = linear(at);
  EXPECT_EQ(cuTexObjectCreate(&made, &resource, &reading, &view), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuTexObjectCreate(&made, &resource, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(TextureTest, ATextureTellsItsResourceUntilItIsDestroyed) {
  const CUdeviceptr at = allocate(kBytes);
  const CUtexObject made = texture(linear(at));
  CUDA_RESOURCE_DESC resource{};
  EXPECT_OK(cuTexObjectGetResourceDesc(&resource, made));
  EXPECT_EQ(resource.res.linear.devPtr, at);
  CUDA_TEXTURE_DESC reading{};
  EXPECT_OK(cuTexObjectGetTextureDesc(&reading, made));
  EXPECT_EQ(cuSurfObjectDestroy(made), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuTexObjectDestroy(made));
  EXPECT_EQ(cuTexObjectDestroy(made), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuTexObjectGetResourceDesc(&resource, made), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(TextureTest, ArraysKeepWhatIsCopiedToThem) {
  const CUarray to = array(1024, 0);
  const CUdeviceptr memory = allocate(4096);
  const std::vector<unsigned> given = words(1024, 9);
  write(memory, given);
  EXPECT_OK(cuMemcpyDtoA(to, 0, memory, 4096));
  std::vector<unsigned> back(1024);
  EXPECT_OK(cuMemcpyAtoH(back.data(), to, 0, 4096));
  EXPECT_EQ(back, given);
  EXPECT_OK(cuMemcpyHtoA(to, 400, words(3, 70).data(), 12));
  const CUarray other = array(100, 1);
  EXPECT_OK(cuMemcpyAtoA(other, 0, to, 400, 12));
  EXPECT_OK(cuMemcpyAtoD(memory, other, 4, 8));
  EXPECT_EQ(read<unsigned>(memory, 3), (std::vector<unsigned>{71, 72, 11}));
  EXPECT_EQ(cuMemcpyDtoA(to, 2, memory, 4), CUDA_ERROR_INVALID_VALUE) << "within an element";
  EXPECT_EQ(cuMemcpyDtoA(to, 4092, memory, 8), CUDA_ERROR_INVALID_VALUE) << "past its end";
  EXPECT_EQ(cuMemcpyDtoA(nullptr, 0, memory, 4), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuMemcpyDtoA(array(8, 8), 0, memory, 4), CUDA_ERROR_INVALID_VALUE) << "of two dimensions";
}

TEST_F(TextureTest, RectanglesAreCopiedToAndFromArrays) {
  const CUarray to = array(64, 8, 4);
  const std::vector<unsigned> given = words(10 * 3 * 2, 5);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = given.data();
  copy.srcPitch = 40;
  copy.srcHeight = 3;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = to;
  copy.dstXInBytes = 8;
  copy.dstY = 2;
  copy.dstZ = 1;
  copy.WidthInBytes = 40;
  copy.Height = 3;
  copy.Depth = 2;
  EXPECT_OK(cuMemcpy3D(&copy));
  std::vector<unsigned> back(given.size());
  CUDA_MEMCPY3D out = copy;
  out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  out.srcArray = to;
  out.srcXInBytes = 8;
  out.srcY = 2;
  out.srcZ = 1;
  out.dstMemoryType = CU_MEMORYTYPE_HOST;
  out.dstHost = back.data();
  out.dstPitch = 40;
  out.dstHeight = 3;
  out.dstXInBytes = out.dstY = out.dstZ = 0;
  EXPECT_OK(cuMemcpy3D(&out));
  EXPECT_EQ(back, given);
  copy.dstZ = 3;
  EXPECT_EQ(cuMemcpy3D(&copy), CUDA_ERROR_INVALID_VALUE) << "past the last slice";
  copy.dstZ = 0;
  copy.dstArray = nullptr;
  EXPECT_EQ(cuMemcpy3D(&copy), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(TextureTest, ArraysTakeMemoryAndGiveItBack) {
  const std::uint64_t before = statistics().physical_bytes;
  const CUarray made = array(1024, 1024);
  EXPECT_EQ(statistics().physical_bytes, before + (4u << 20));
  CUDA_ARRAY3D_DESCRIPTOR whole{};
  EXPECT_OK(cuArray3DGetDescriptor(&whole, made));
  EXPECT_EQ(whole.Height, 1024u);
  CUDA_ARRAY_DESCRIPTOR flat{};
  EXPECT_OK(cuArrayGetDescriptor(&flat, made));
  EXPECT_EQ(flat.Format, CU_AD_FORMAT_UNSIGNED_INT32);
  EXPECT_OK(cuArrayDestroy(made));
  EXPECT_EQ(cuArrayDestroy(made), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(statistics().physical_bytes, before);
  CUDA_ARRAY_DESCRIPTOR wanted{0, 0, CU_AD_FORMAT_FLOAT, 1};
  CUarray none = nullptr;
  EXPECT_EQ(cuArrayCreate(&none, &wanted), CUDA_ERROR_INVALID_VALUE);
  wanted = {16, 0, CU_AD_FORMAT_FLOAT, 3};
  EXPECT_EQ(cuArrayCreate(&none, &wanted), CUDA_ERROR_INVALID_VALUE);
  wanted = {65536, 65536, CU_AD_FORMAT_FLOAT, 4};
  EXPECT_EQ(cuArrayCreate(&none, &wanted), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(TextureTest, TheEndOfAContextEndsItsArrays) {
  CUcontext second = nullptr;
  EXPECT_OK(cuCtxCreate(&second, nullptr, 0, 0));
  const std::uint64_t before = statistics().physical_bytes;
  array(1024, 1024);
  EXPECT_OK(cuCtxDestroy(second));
  EXPECT_EQ(statistics().physical_bytes, before);
}

TEST_F(TextureTest, AKernelReadsArraysByTexturesAndWritesThemBySurfaces) {
  const CUarray plain = array(64, 64);
  const CUarray made = array(64, 64, 0, CUDA_ARRAY3D_SURFACE_LDST);
  const CUdeviceptr out = allocate(4096);
  CUsurfObject surface = 0;
  CUDA_RESOURCE_DESC resource = over(plain);
  EXPECT_EQ(cuSurfObjectCreate(&surface, &resource), CUDA_ERROR_INVALID_VALUE) << "not made for it";
  resource = over(made);
  EXPECT_OK(cuSurfObjectCreate(&surface, &resource));
  CUDA_RESOURCE_DESC told{};
  EXPECT_OK(cuSurfObjectGetResourceDesc(&told, surface));
  EXPECT_EQ(told.res.array.hArray, made);
  const CUtexObject reads = texture(resource);
  const auto before = fetched(reads, out);
  EXPECT_EQ(fetched(reads, out), before);
  fetched(surface, out);
  EXPECT_NE(fetched(reads, out), before);
  EXPECT_OK(cuSurfObjectDestroy(surface));
}

TEST_F(TextureTest, CubesHaveSixSquareFaces) {
  const auto create = [](std::size_t width, std::size_t height, std::size_t depth, unsigned flags) {
    const CUDA_ARRAY3D_DESCRIPTOR wanted{width, height, depth, CU_AD_FORMAT_FLOAT, 1, flags | CUDA_ARRAY3D_CUBEMAP};
    CUarray made = nullptr;
    return cuArray3DCreate(&made, &wanted);
  };
  EXPECT_OK(create(8, 8, 6, 0));
  EXPECT_OK(create(8, 8, 12, CUDA_ARRAY3D_LAYERED));
  EXPECT_EQ(create(8, 4, 6, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(8, 8, 12, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(8, 8, 8, CUDA_ARRAY3D_LAYERED), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
