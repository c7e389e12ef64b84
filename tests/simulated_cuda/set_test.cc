// SPDX-License-Identifier: Apache-2.0
// Sets.
#include "tests/simulated_cuda/device_fixture.h"

namespace {

class SetTest : public DeviceTest {};

TEST_F(SetTest, EveryWidthSetsItsElements) {
  const CUdeviceptr at = allocate(64);
  EXPECT_OK(cuMemsetD32(at, 0x01020304, 4));
  EXPECT_OK(cuMemsetD16(at + 4, 0xabcd, 2));
  EXPECT_OK(cuMemsetD8(at + 9, 0xff, 1));
  EXPECT_EQ(read<unsigned>(at, 5), (std::vector<unsigned>{0x01020304, 0xabcdabcd, 0x0102ff04, 0x01020304, 0}));
}

TEST_F(SetTest, RowsAreSetAndWhatLiesBetweenIsNot) {
  const CUdeviceptr at = allocate(256);
  EXPECT_OK(cuMemsetD2D32(at, 64, 7, 3, 2));
  const std::vector<unsigned> values = read<unsigned>(at, 64);
  EXPECT_EQ(values[0] + values[2] + values[16] + values[18], 28u);
  EXPECT_EQ(values[3] + values[15] + values[19] + values[32], 0u);
}

TEST_F(SetTest, AsynchronousSetsRunInTheirStream) {
  CUstream stream = make_stream();
  const CUdeviceptr at = allocate(16);
  busy(stream, 1000);
  EXPECT_OK(cuMemsetD8Async(at, 1, 16, stream));
  EXPECT_OK(cuMemsetD2D8Async(at, 8, 2, 4, 2, stream));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(read<unsigned>(at, 4), (std::vector<unsigned>{0x02020202, 0x01010101, 0x02020202, 0x01010101}));
}

TEST_F(SetTest, MisalignedAndExternalAddressesAreRefused) {
  const CUdeviceptr at = allocate(64);
  EXPECT_EQ(cuMemsetD32(at + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD16(at + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8(4096, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD2D8(at, 4, 0, 8, 2), CUDA_ERROR_INVALID_VALUE) << "rows would overlap";
  EXPECT_OK(cuMemsetD8(at, 0, 0));
}

}  // namespace
