// SPDX-License-Identifier: Apache-2.0
// The driver's answers about pointers.
#include "tests/simulated_cuda/device_fixture.h"

namespace {

class PointerTest : public DeviceTest {
 protected:
  template <typename T>
  static T get(CUpointer_attribute attribute, CUdeviceptr at) {
    T value{};
    EXPECT_OK(cuPointerGetAttribute(&value, attribute, at)) << "attribute " << attribute;
    return value;
  }
};

TEST_F(PointerTest, DeviceMemoryIsKnown) {
  const CUdeviceptr at = allocate(5000);
  EXPECT_EQ(get<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 17), unsigned{CU_MEMORYTYPE_DEVICE});
  EXPECT_EQ(get<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at + 17), at + 17);
  EXPECT_EQ(get<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at + 17), at);
  EXPECT_EQ(get<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, at + 17), 5000u);
  EXPECT_EQ(get<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, at), 0u);
  EXPECT_EQ(get<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, at), context_);
  EXPECT_NE(get<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, at),
            get<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, allocate(16)));
  void* host = nullptr;
  EXPECT_EQ(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(PointerTest, PinnedAndManagedMemoryAreKnown) {
  void* pinned = nullptr;
  CUdeviceptr managed = 0;
  ASSERT_OK(cuMemAllocHost(&pinned, 4096));
  ASSERT_OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
  const auto at = reinterpret_cast<CUdeviceptr>(pinned);
  EXPECT_EQ(get<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at), unsigned{CU_MEMORYTYPE_HOST});
  EXPECT_EQ(get<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, at), pinned);
  EXPECT_EQ(get<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed), 1u);
  EXPECT_EQ(get<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, managed), reinterpret_cast<void*>(managed));
}

TEST_F(PointerTest, NobodysPointerIsRefusedAloneAndZeroAmongOthers) {
  int local = 0;
  const auto at = reinterpret_cast<CUdeviceptr>(&local);
  unsigned type = 7;
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at), CUDA_ERROR_INVALID_VALUE);
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
  CUdeviceptr device = 7;
  void* out[] = {&type, &device};
  EXPECT_OK(cuPointerGetAttributes(2, attributes, out, at));
  EXPECT_EQ(type, 0u);
  EXPECT_EQ(device, 0u);
  EXPECT_OK(cuPointerGetAttributes(2, attributes, out, allocate(16)));
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_DEVICE});
}

TEST_F(PointerTest, SynchronousOperationsCanBeAskedFor) {
  const CUdeviceptr at = allocate(16);
  unsigned on = 1;
  EXPECT_EQ(get<unsigned>(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at), 0u);
  EXPECT_OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
  EXPECT_EQ(get<unsigned>(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at), 1u);
  EXPECT_EQ(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
