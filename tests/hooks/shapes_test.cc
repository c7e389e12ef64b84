// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/shapes.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

constexpr CUdeviceptr kSource = 0x1000'0000;
constexpr CUdeviceptr kTarget = 0x2000'0000;

CUDA_MEMCPY2D device_copy(std::size_t width, std::size_t rows, std::size_t pitch) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = kSource;
  copy.dstDevice = kTarget;
  copy.srcPitch = copy.dstPitch = pitch;
  copy.WidthInBytes = width;
  copy.Height = rows;
  return copy;
}

void expect_access(const MemoryAccess& memory_access, CUdeviceptr at, Bytes bytes, Access access) {
  EXPECT_EQ(memory_access.address.value, at);
  EXPECT_EQ(memory_access.bytes, bytes);
  EXPECT_EQ(memory_access.access, access);
}

TEST(Shapes, RowsReachFromTheFirstByteOfTheFirstToTheLastOfTheLast) {
  const CUDA_MEMCPY2D copy = device_copy(100, 3, 512);
  const ShapedCopy shape = shape_of(&copy);
  ASSERT_EQ(shape.accesses.all().size(), 2u);
  expect_access(shape.accesses.all()[0], kSource, 2 * 512 + 100, Access::kRead);
  // Not everything in between is written.
  expect_access(shape.accesses.all()[1], kTarget, 2 * 512 + 100, Access::kUnknown);
  EXPECT_EQ(shape.host, Host::kGoesOn);
}

TEST(Shapes, RowsWithoutGapsAreWrittenWhole) {
  const CUDA_MEMCPY2D copy = device_copy(512, 3, 512);
  expect_access(shape_of(&copy).accesses.all()[1], kTarget, 3 * 512, Access::kWrite);
}

TEST(Shapes, OffsetsMoveTheBegin) {
  CUDA_MEMCPY2D copy = device_copy(8, 2, 64);
  copy.dstXInBytes = 5;
  copy.dstY = 3;
  expect_access(shape_of(&copy).accesses.all()[1], kTarget + 3 * 64 + 5, 64 + 8, Access::kUnknown);
}

TEST(Shapes, PitchOfASingleRowDoesNotMatter) {
  const CUDA_MEMCPY2D copy = device_copy(8, 1, 0);
  expect_access(shape_of(&copy).accesses.all()[1], kTarget, 8, Access::kWrite);
}

TEST(Shapes, EmptyCopiesAccessNothing) {
  const CUDA_MEMCPY2D no_rows = device_copy(8, 0, 64);
  const CUDA_MEMCPY2D no_width = device_copy(0, 8, 64);
  EXPECT_TRUE(shape_of(&no_rows).accesses.empty());
  EXPECT_TRUE(shape_of(&no_width).accesses.empty());
  EXPECT_TRUE(shape_of(static_cast<const CUDA_MEMCPY2D*>(nullptr)).accesses.empty());
}

TEST(Shapes, ArraysAreNotAccessedAndHostMemoryDecidesWhoWaits) {
  CUDA_MEMCPY2D copy = device_copy(8, 2, 64);
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  EXPECT_EQ(shape_of(&copy).accesses.all().size(), 1u);
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  EXPECT_EQ(shape_of(&copy).host, Host::kWaits);
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  EXPECT_EQ(shape_of(&copy).host, Host::kWaitsFirst);
}

TEST(Shapes, LayersAreHeightRowsApart) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = kSource;
  copy.dstDevice = kTarget;
  copy.srcPitch = copy.dstPitch = 128;
  copy.srcHeight = copy.dstHeight = 10;
  copy.srcZ = 1;
  copy.WidthInBytes = 128;
  copy.Height = 10;
  copy.Depth = 2;
  const ShapedCopy shape = shape_of(&copy);
  expect_access(shape.accesses.all()[0], kSource + 10 * 128, 2 * 10 * 128, Access::kRead);
  expect_access(shape.accesses.all()[1], kTarget, 2 * 10 * 128, Access::kWrite);
}

TEST(Shapes, BatchOperandsWithoutLengthsLieSideBySide) {
  CUDA_MEMCPY3D_BATCH_OP copy{};
  copy.src.type = copy.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  copy.src.op.ptr.ptr = kSource;
  copy.dst.op.ptr.ptr = kTarget;
  copy.dst.op.ptr.rowLength = 100;
  copy.extent = {.width = 64, .height = 4, .depth = 1};
  const ShapedCopy shape = shape_of(&copy);
  expect_access(shape.accesses.all()[0], kSource, 4 * 64, Access::kRead);
  expect_access(shape.accesses.all()[1], kTarget, 3 * 100 + 64, Access::kUnknown);
}

// Their sizes are in elements of the array.
TEST(Shapes, BatchOperandsBesideAnArrayAreWholeBuffers) {
  CUDA_MEMCPY3D_BATCH_OP copy{};
  copy.src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  copy.src.op.ptr.ptr = kSource;
  copy.dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
  copy.extent = {.width = 64, .height = 4, .depth = 1};
  const ShapedCopy shape = shape_of(&copy);
  ASSERT_EQ(shape.accesses.all().size(), 1u);
  expect_access(shape.accesses.all()[0], kSource, 0, Access::kUnknown);
  EXPECT_TRUE(shape.accesses.moves().empty());
}

}  // namespace
}  // namespace thermocline
