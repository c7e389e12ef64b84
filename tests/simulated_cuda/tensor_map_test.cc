// SPDX-License-Identifier: Apache-2.0
// Tensor maps: invalid arguments, what kernels read through them, and that they contain no readable address.
#include <cstring>

#include "tests/simulated_cuda/device_fixture.h"

namespace {

class TensorMapTest : public DeviceTest {
 protected:
  // A valid description; tests change the field that they are about.
  struct Tiled {
    CUdeviceptr at = 0;
    CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    cuuint32_t rank = 2;
    cuuint64_t extents[5] = {64, 16, 1, 1, 1};
    cuuint64_t strides[4] = {256, 4096, 4096, 4096};
    cuuint32_t box[5] = {16, 8, 1, 1, 1};
    cuuint32_t steps[5] = {1, 1, 1, 1, 1};
    CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  };

  static CUresult encode(const Tiled& tensor, CUtensorMap* out) {
    return cuTensorMapEncodeTiled(out, tensor.type, tensor.rank, reinterpret_cast<void*>(tensor.at), tensor.extents,
                                  tensor.strides, tensor.box, tensor.steps, tensor.interleave,
                                  CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }
};

TEST_F(TensorMapTest, SaysWhatItWasMadeOf) {
  Tiled tensor{.at = allocate(8192) + 16};
  CUtensorMap map;
  ASSERT_OK(encode(tensor, &map));
  SimulatedTensorMap read;
  ASSERT_EQ(control().tensor_map(&map, &read), 1);
  EXPECT_EQ(read.address, tensor.at);
  EXPECT_EQ(read.rank, 2u);
  EXPECT_EQ(read.element_bytes, 4u);
  EXPECT_EQ(read.extents[1], 16u);
  EXPECT_EQ(read.strides[0], 4u);
  EXPECT_EQ(read.strides[1], 256u);
  EXPECT_EQ(read.box[0], 16u);
  ASSERT_OK(cuTensorMapReplaceAddress(&map, reinterpret_cast<void*>(tensor.at + 1024)));
  ASSERT_EQ(control().tensor_map(&map, &read), 1);
  EXPECT_EQ(read.address, tensor.at + 1024);
  EXPECT_EQ(read.extents[1], 16u);
  reinterpret_cast<unsigned char*>(&map)[40] ^= 1;
  EXPECT_EQ(control().tensor_map(&map, &read), 0) << "a changed byte";
  EXPECT_EQ(cuTensorMapReplaceAddress(&map, reinterpret_cast<void*>(tensor.at)), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(TensorMapTest, HoldsItsAddressNowhereAsItIs) {
  Tiled tensor{.at = allocate(8192)};
  CUtensorMap map;
  ASSERT_OK(encode(tensor, &map));
  for (std::size_t offset = 0; offset + 8 <= sizeof map; ++offset) {
    CUdeviceptr word = 0;
    std::memcpy(&word, reinterpret_cast<const unsigned char*>(&map) + offset, sizeof word);
    EXPECT_NE(word >> 13, tensor.at >> 13) << offset;
  }
}

TEST_F(TensorMapTest, IsRefusedWhatIsNotAllowed) {
  const Tiled good{.at = allocate(8192)};
  CUtensorMap map;
  ASSERT_OK(encode(good, &map));
  const auto refused = [&](auto change) {
    Tiled tensor = good;
    change(tensor);
    return encode(tensor, &map) == CUDA_ERROR_INVALID_VALUE;
  };
  EXPECT_TRUE(refused([](Tiled& t) { t.at += 8; }));
  EXPECT_TRUE(refused([](Tiled& t) { t.rank = 0; }));
  EXPECT_TRUE(refused([](Tiled& t) { t.rank = 6; }));
  EXPECT_TRUE(refused([](Tiled& t) { t.extents[1] = 0; }));
  EXPECT_TRUE(refused([](Tiled& t) { t.strides[0] = 260; }));
  EXPECT_TRUE(refused([](Tiled& t) { t.strides[0] = cuuint64_t{1} << 40; }));
  EXPECT_TRUE(refused([](Tiled& t) { t.box[1] = 257; }));
  EXPECT_TRUE(refused([](Tiled& t) { t.box[0] = 3; }));
  EXPECT_TRUE(refused([](Tiled& t) { t.steps[0] = 9; }));
  EXPECT_TRUE(refused([](Tiled& t) { t.interleave = CU_TENSOR_MAP_INTERLEAVE_32B; }));
  alignas(64) unsigned char place[256];
  EXPECT_EQ(encode(good, reinterpret_cast<CUtensorMap*>(place + 16)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuTensorMapReplaceAddress(&map, reinterpret_cast<void*>(good.at + 4)), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(TensorMapTest, NamesItsBufferToKernelsThatMix) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_OK(cuModuleLoadData(&module,
                             ".version 8.0\n.target sm_90\n.address_size 64\n"
                             ".visible .entry by_map(.param .align 64 .b8 map[128])\n{\n  ret;\n}\n"));
  ASSERT_OK(cuModuleGetFunction(&function, module, "by_map"));
  const CUdeviceptr one = allocate(8192), other = allocate(8192);
  CUtensorMap map;
  ASSERT_OK(encode({.at = one}, &map));
  void* parameters[] = {&map};
  ASSERT_OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT_NE(read<unsigned>(one, 2048), std::vector<unsigned>(2048)) << "it was written to";
  EXPECT_EQ(read<unsigned>(other, 2048), std::vector<unsigned>(2048));
}

TEST_F(TensorMapTest, OtherKindsSayWhereTheyAre) {
  const CUdeviceptr at = allocate(8192);
  const cuuint64_t extents[] = {16, 8, 8, 1}, strides[] = {64, 512, 4096};
  const cuuint32_t steps[] = {1, 1, 1, 1};
  const int corner[] = {0, 0};
  CUtensorMap map;
  SimulatedTensorMap read;
  ASSERT_OK(cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, reinterpret_cast<void*>(at), extents,
                                    strides, corner, corner, 16, 8, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                    CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  ASSERT_EQ(control().tensor_map(&map, &read), 1);
  EXPECT_EQ(read.address, at);
  const CUtensorMap first = map;
  ASSERT_OK(cuTensorMapEncodeIm2colWide(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, reinterpret_cast<void*>(at), extents,
                                        strides, 0, 0, 16, 8, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                        CU_TENSOR_MAP_IM2COL_WIDE_MODE_W, CU_TENSOR_MAP_SWIZZLE_128B,
                                        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  ASSERT_EQ(control().tensor_map(&map, &read), 1);
  EXPECT_EQ(read.address, at);
  EXPECT_NE(std::memcmp(&map, &first, sizeof map), 0);
}

}  // namespace
