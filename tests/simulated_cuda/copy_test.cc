// SPDX-License-Identifier: Apache-2.0
// Copies of ranges, rectangles and boxes, and who waits for whom.
#include <cstring>
#include <numeric>

#include "tests/simulated_cuda/device_fixture.h"

namespace {

class CopyTest : public DeviceTest {
 protected:
  static std::vector<unsigned> counting(std::size_t count) {
    std::vector<unsigned> values(count);
    std::iota(values.begin(), values.end(), 1u);
    return values;
  }

  static CUdeviceptr address(const void* at) { return reinterpret_cast<CUdeviceptr>(at); }
};

TEST_F(CopyTest, WhatGoesOverAndBackIsTheSame) {
  const std::vector<unsigned> values = counting(100000);
  const CUdeviceptr one = allocate(400000), other = allocate(400000);
  write(one, values);
  EXPECT_OK(cuMemcpyDtoD(other, one, 400000));
  EXPECT_EQ(read<unsigned>(other, 100000), values);
}

TEST_F(CopyTest, UnifiedCopiesFindTheirDirection) {
  std::vector<unsigned> values = counting(16), back(16);
  const CUdeviceptr at = allocate(64);
  EXPECT_OK(cuMemcpy(at, address(values.data()), 64));
  EXPECT_OK(cuMemcpyAsync(address(back.data()), at, 64, nullptr));
  EXPECT_EQ(back, values);
  std::vector<unsigned> third(16);
  EXPECT_OK(cuMemcpy(address(third.data()), address(values.data()), 64));
  EXPECT_EQ(third, values);
}

TEST_F(CopyTest, ASourceLargerThanAnyMemoryIsAnInvalidValue) {
  const CUdeviceptr at = allocate(64);
  const unsigned value = 1;
  EXPECT_EQ(cuMemcpyHtoD(at, &value, std::size_t{1} << 46), CUDA_ERROR_INVALID_VALUE);
}

// The call's own error, and the context goes on: nothing was copied.
TEST_F(CopyTest, PastTheEndOfAnAllocationIsAnInvalidValueAtOnce) {
  constexpr std::size_t kBytes = 3368, kWords = kBytes / 4;
  std::vector<unsigned> values = counting(4 * kPage / 4), back(values.size());
  const CUdeviceptr at = allocate(kBytes), other = allocate(8 * kPage);
  write(at, std::vector<unsigned>(kWords, 7));
  for (const std::size_t more : {std::size_t{1}, std::size_t{16}, 3 * kPage}) {
    EXPECT_EQ(cuMemcpyHtoD(at, values.data(), kBytes + more), CUDA_ERROR_INVALID_VALUE) << more;
    EXPECT_EQ(cuMemcpyHtoDAsync(at + kBytes - 4, values.data(), 4 + more, nullptr), CUDA_ERROR_INVALID_VALUE) << more;
    EXPECT_EQ(cuMemcpyDtoH(back.data(), at, kBytes + more), CUDA_ERROR_INVALID_VALUE) << more;
    EXPECT_EQ(cuMemcpyDtoDAsync(other, at, kBytes + more, nullptr), CUDA_ERROR_INVALID_VALUE) << more;
    EXPECT_EQ(cuMemcpyDtoD(at, other, kBytes + more), CUDA_ERROR_INVALID_VALUE) << more;
    EXPECT_EQ(cuMemsetD8(at, 0, kBytes + more), CUDA_ERROR_INVALID_VALUE) << more;
  }
  // The last row of a rectangle counts up to its width.
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = CU_MEMORYTYPE_HOST;
  rows.srcHost = values.data();
  rows.srcPitch = 512;
  rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.dstDevice = at;
  rows.dstPitch = 512;
  rows.WidthInBytes = kBytes - 6 * 512;
  rows.Height = 7;
  EXPECT_OK(cuMemcpy2D(&rows));
  rows.WidthInBytes += 4;
  EXPECT_EQ(cuMemcpy2D(&rows), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_OK(cuMemcpyHtoD(at, values.data(), kBytes));
  EXPECT_EQ(read<unsigned>(at, kWords), counting(kWords));
}

TEST_F(CopyTest, APageableSourceIsReadBeforeTheCallReturns) {
  CUstream stream = make_stream();
  std::vector<unsigned> values = counting(4);
  const CUdeviceptr at = allocate(16);
  busy(stream, 1000);
  EXPECT_OK(cuMemcpyHtoDAsync(at, values.data(), 16, stream));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  values.assign(4, 0);
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(read<unsigned>(at, 4), counting(4));
}

TEST_F(CopyTest, ACopyToPageableMemoryIsThereWhenTheCallReturns) {
  CUstream stream = make_stream();
  const CUdeviceptr at = allocate(16);
  busy(stream, 1000);
  EXPECT_OK(cuMemsetD32Async(at, 3, 4, stream));
  std::vector<unsigned> back(4);
  EXPECT_OK(cuMemcpyDtoHAsync(back.data(), at, 16, stream));
  EXPECT_EQ(back, std::vector<unsigned>(4, 3));
}

// CUDA driver API, "API synchronization behavior": between any two places of host memory the host waits.
TEST_F(CopyTest, ACopyWithinHostMemoryIsThereWhenTheCallReturns) {
  void* pinned = nullptr;
  ASSERT_OK(cuMemAllocHost(&pinned, 16));
  std::vector<unsigned> values = counting(4);
  EXPECT_OK(cuMemcpy(address(pinned), address(values.data()), 16));
  EXPECT_EQ(std::memcmp(pinned, values.data(), 16), 0);
  static_cast<unsigned*>(pinned)[0] = 123;
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(static_cast<unsigned*>(pinned)[0], 123u);
  EXPECT_OK(cuMemFreeHost(pinned));
}

TEST_F(CopyTest, ACopyToPinnedMemoryWaitsForNobody) {
  CUstream stream = make_stream();
  const CUdeviceptr at = allocate(16);
  void* pinned = nullptr;
  ASSERT_OK(cuMemAllocHost(&pinned, 16));
  static_cast<unsigned*>(pinned)[0] = 99;
  EXPECT_OK(cuMemsetD32Async(at, 3, 4, stream));
  EXPECT_OK(cuMemcpyDtoHAsync(pinned, at, 16, stream));
  EXPECT_EQ(static_cast<unsigned*>(pinned)[0], 99u);
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(static_cast<unsigned*>(pinned)[0], 3u);
}

TEST_F(CopyTest, TheLinkTakesItsTime) {
  CUstream stream = make_stream();
  void* pinned = nullptr;
  ASSERT_OK(cuMemAllocHost(&pinned, 50'000'000));
  const CUdeviceptr at = allocate(50'000'000);
  EXPECT_OK(cuCtxSynchronize());
  const std::int64_t start = control().now_ns();
  EXPECT_OK(cuMemcpyHtoDAsync(at, pinned, 50'000'000, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  const std::int64_t elapsed = control().now_ns() - start;
  EXPECT_GE(elapsed, 1'000'000) << "50 MB at 50 GB/s";
  EXPECT_LT(elapsed, 1'020'000);
}

TEST_F(CopyTest, ARectangleGoesWhereItBelongs) {
  const std::vector<unsigned> values = counting(64);  // 8 x 8
  const CUdeviceptr at = allocate(4096);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = values.data();
  copy.srcPitch = 32;
  copy.srcXInBytes = 8;
  copy.srcY = 3;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = at;
  copy.dstPitch = 512;
  copy.dstXInBytes = 4;
  copy.dstY = 1;
  copy.WidthInBytes = 12;
  copy.Height = 2;
  EXPECT_OK(cuMemcpy2D(&copy));
  EXPECT_EQ(read<unsigned>(at + 512, 5), (std::vector<unsigned>{0, 27, 28, 29, 0}));
  EXPECT_EQ(read<unsigned>(at + 1024, 5), (std::vector<unsigned>{0, 35, 36, 37, 0}));
  EXPECT_EQ(read<unsigned>(at + 1536, 2), (std::vector<unsigned>{0, 0}));
  copy.dstPitch = 8;
  EXPECT_EQ(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE) << "rows would overlap";
  copy.dstPitch = 512;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  EXPECT_EQ(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE) << "no array was given";
}

TEST_F(CopyTest, ABoxGoesWhereItBelongs) {
  const std::vector<unsigned> values = counting(4 * 3 * 2);  // 4 wide, 3 high, 2 deep
  const CUdeviceptr at = allocate(4096);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = values.data();
  copy.srcPitch = 16;
  copy.srcHeight = 3;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = at;
  copy.dstPitch = 64;
  copy.dstHeight = 4;
  copy.dstZ = 1;
  copy.WidthInBytes = 8;
  copy.Height = 2;
  copy.Depth = 2;
  EXPECT_OK(cuMemcpy3D(&copy));
  const std::size_t slice = 64 * 4;
  EXPECT_EQ(read<unsigned>(at, 2), (std::vector<unsigned>{0, 0}));
  EXPECT_EQ(read<unsigned>(at + slice, 3), (std::vector<unsigned>{1, 2, 0}));
  EXPECT_EQ(read<unsigned>(at + slice + 64, 3), (std::vector<unsigned>{5, 6, 0}));
  EXPECT_EQ(read<unsigned>(at + 2 * slice + 64, 3), (std::vector<unsigned>{17, 18, 0}));
}

TEST_F(CopyTest, ABatchCopiesEachRange) {
  CUstream stream = make_stream();
  const std::vector<unsigned> values = counting(8);
  const CUdeviceptr at = allocate(64);
  CUdeviceptr to[] = {at, at + 32}, from[] = {address(values.data()), address(values.data() + 4)};
  std::size_t sizes[] = {16, 16}, first[] = {0};
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  EXPECT_OK(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, first, 1, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(read<unsigned>(at + 32, 4), (std::vector<unsigned>{5, 6, 7, 8}));
  EXPECT_EQ(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, first, 1, nullptr), CUDA_ERROR_INVALID_VALUE);
}

// Its buffer in between is the device's own concern: no function of the program's ends with it.
TEST_F(CopyTest, ACopyThatReadsAheadOfItsStreamRunsNoHostFunction) {
  const CUstream stream = make_stream();
  const CUdeviceptr from = allocate(64), to = allocate(64);
  write<unsigned>(from, {1, 2, 3, 4});
  for (const auto order : {CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL, CU_MEMCPY_SRC_ACCESS_ORDER_ANY}) {
    CUdeviceptr targets[] = {to}, sources[] = {from};
    std::size_t sizes[] = {16}, first[] = {0};
    CUmemcpyAttributes attributes{};
    attributes.srcAccessOrder = order;
    ASSERT_OK(cuMemsetD32(to, 0, 4));
    ASSERT_OK(cuMemcpyBatchAsync(targets, sources, sizes, 1, &attributes, first, 1, stream));
    ASSERT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(read<unsigned>(to, 4), (std::vector<unsigned>{1, 2, 3, 4}));
  }
  EXPECT_EQ(statistics().host_functions, 0u);
}

TEST_F(CopyTest, NothingIsCopiedWhereThereIsNothingToCopy) {
  EXPECT_OK(cuMemcpyHtoD(0, nullptr, 0));
  EXPECT_EQ(statistics().h2d_copies, 0u);
}

TEST_F(CopyTest, AddressesThatAreNobodysAreRefused) {
  std::vector<unsigned> values(4);
  EXPECT_EQ(cuMemcpyHtoD(4096, values.data(), 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoH(values.data(), 0, 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD(allocate(16), nullptr, 16), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CopyTest, BatchesOfBoxesCopyEachOfThem) {
  const CUstream stream = make_stream();
  const CUdeviceptr from = allocate(4096), to = allocate(4096);
  std::vector<unsigned char> bytes(4096);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 7 + i / 256);
  write<unsigned char>(from, bytes);
  ASSERT_OK(cuMemsetD8(to, 0, 4096));
  ASSERT_OK(cuCtxSynchronize());
  CUDA_MEMCPY3D_BATCH_OP ops[2] = {};
  for (CUDA_MEMCPY3D_BATCH_OP& op : ops) {
    op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  }
  ops[0].src.op.ptr.ptr = from;
  ops[0].src.op.ptr.rowLength = 64;
  ops[0].src.op.ptr.layerHeight = 8;
  ops[0].dst.op.ptr.ptr = to;
  ops[0].extent = {16, 4, 3};
  ops[1].src.op.ptr.ptr = from;
  ops[1].dst.op.ptr.ptr = to + 1024;
  ops[1].extent = {100, 1, 1};
  ASSERT_OK(cuMemcpy3DBatchAsync(2, ops, 0, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  const std::vector<unsigned char> found = read<unsigned char>(to, 2048);
  for (std::size_t z = 0; z < 3; ++z) {
    for (std::size_t y = 0; y < 4; ++y) {
      for (std::size_t x = 0; x < 16; ++x) ASSERT_EQ(found[(z * 4 + y) * 16 + x], bytes[(z * 8 + y) * 64 + x]);
    }
  }
  EXPECT_EQ(found[192], 0);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + 100, found.begin() + 1024));
  EXPECT_EQ(found[1124], 0);
  EXPECT_EQ(cuMemcpy3DBatchAsync(2, ops, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpy3DBatchAsync(2, ops, 1, stream), CUDA_ERROR_INVALID_VALUE);
  ops[1].extent.height = 0;
  EXPECT_EQ(cuMemcpy3DBatchAsync(2, ops, 0, stream), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
