// SPDX-License-Identifier: Apache-2.0
// Two devices in one process, each with its own memory, contexts, streams and time.
#include <cstring>
#include <string>

#include "tests/simulated_cuda/two_devices_fixture.h"

namespace {

class SeveralDevicesTest : public TwoDevicesTest {};

TEST_F(SeveralDevicesTest, TheSettingSaysHowManyThereAre) {
  int count = 0;
  CUdevice device = -1;
  EXPECT_OK(cuDeviceGetCount(&count));
  EXPECT_EQ(count, 2);
  EXPECT_OK(cuDeviceGet(&device, 1));
  EXPECT_EQ(device, 1);
  EXPECT_EQ(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
  control().reset();
  for (const char* wrong : {"0", "9", "two", "", "2 "})
    EXPECT_NE(control().configure("devices", wrong), nullptr) << wrong;
}

TEST_F(SeveralDevicesTest, EachIsAtAPlaceOfItsOwn) {
  CUuuid uuids[2] = {};
  std::string places[2];
  for (CUdevice device = 0; device < 2; ++device) {
    char place[32];
    int bus = 0;
    CUdevice found = -1;
    EXPECT_OK(cuDeviceGetUuid(&uuids[device], device));
    EXPECT_OK(cuDeviceGetPCIBusId(place, sizeof place, device));
    EXPECT_OK(cuDeviceGetByPCIBusId(&found, place));
    EXPECT_EQ(found, device);
    EXPECT_OK(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device));
    EXPECT_EQ(bus, std::stoi(std::string(place).substr(5, 2)));
    places[device] = place;
  }
  EXPECT_NE(places[0], places[1]);
  EXPECT_NE(std::memcmp(&uuids[0], &uuids[1], sizeof uuids[0]), 0);
}

TEST_F(SeveralDevicesTest, PrimaryContextsAreCountedEachForItself) {
  unsigned flags = 0;
  int active = 0;
  CUdevice device = -1;
  EXPECT_NE(contexts_[0], contexts_[1]);
  EXPECT_OK(cuDevicePrimaryCtxRelease(1));
  EXPECT_OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
  EXPECT_EQ(active, 0);
  EXPECT_OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(active, 1);
  use(0);
  EXPECT_OK(cuCtxGetDevice(&device));
  EXPECT_EQ(device, 0);
  EXPECT_OK(cuCtxSetCurrent(contexts_[1]));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_F(SeveralDevicesTest, MemoryIsTakenFromTheDeviceOfTheContext) {
  const std::size_t first = free_bytes(0), second = free_bytes(1);
  use(1);
  const CUdeviceptr at = allocate(10 * kPage);
  EXPECT_EQ(free_bytes(0), first);
  EXPECT_EQ(free_bytes(1), second - 10 * kPage);
  use(0);
  EXPECT_OK(cuMemFree(at));
  EXPECT_EQ(free_bytes(1), second);
}

TEST_F(SeveralDevicesTest, OneBeingFullDoesNotKeepTheOtherFromGiving) {
  use(0);
  const CUdeviceptr all = allocate(free_bytes(0));
  CUdeviceptr more = 0;
  use(0);
  EXPECT_EQ(cuMemAlloc(&more, kPage), CUDA_ERROR_OUT_OF_MEMORY);
  use(1);
  const CUdeviceptr other = allocate(free_bytes(1) - kPage);
  EXPECT_OK(cuMemFree(other));
  EXPECT_OK(cuMemFree(all));
}

TEST_F(SeveralDevicesTest, HandlesAreOfTheDeviceThatTheirPropertiesName) {
  const std::size_t first = free_bytes(0), second = free_bytes(1);
  use(0);
  const CUmemGenericAllocationHandle handle = create(kPage, 1);
  EXPECT_EQ(free_bytes(0), first);
  EXPECT_EQ(free_bytes(1), second - kPage);
  CUmemAllocationProp properties{};
  EXPECT_OK(cuMemGetAllocationPropertiesFromHandle(&properties, handle));
  EXPECT_EQ(properties.location.id, 1);
  EXPECT_OK(cuMemRelease(handle));
  EXPECT_EQ(free_bytes(1), second);
}

TEST_F(SeveralDevicesTest, APointerSaysWhichDeviceItsMemoryIsOn) {
  use(1);
  const CUdeviceptr at = allocate(64);
  use(0);
  int ordinal = -1;
  EXPECT_OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at));
  EXPECT_EQ(ordinal, 1);
  CUcontext context = nullptr;
  EXPECT_OK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, at));
  EXPECT_EQ(context, contexts_[1]);
}

TEST_F(SeveralDevicesTest, AStreamIsOfTheDeviceOfItsContext) {
  use(1);
  const CUstream stream = make_stream();
  CUdevice device = -1;
  CUcontext context = nullptr;
  use(0);
  EXPECT_OK(cuStreamGetDevice(stream, &device));
  EXPECT_EQ(device, 1);
  EXPECT_OK(cuStreamGetDevice(nullptr, &device));
  EXPECT_EQ(device, 0);
  EXPECT_OK(cuStreamGetCtx(stream, &context));
  EXPECT_EQ(context, contexts_[1]);
}

TEST_F(SeveralDevicesTest, KernelsOfTwoDevicesRunSideBySide) {
  const std::int64_t begin = control().now_ns();
  for (int device = 0; device < 2; ++device) {
    use(device);
    busy(nullptr, 1000);
  }
  for (int device = 0; device < 2; ++device) {
    use(device);
    EXPECT_OK(cuCtxSynchronize());
  }
  const std::int64_t took = control().now_ns() - begin;
  EXPECT_GE(took, 1'000'000);
  EXPECT_LT(took, 1'100'000);
  EXPECT_EQ(statistics().compute_busy_ns, 2'000'000);
}

TEST_F(SeveralDevicesTest, CopiesOverTwoLinksRunSideBySide) {
  void* host = nullptr;
  const std::size_t bytes = 64 << 20;
  ASSERT_OK(cuMemAllocHost(&host, bytes));
  CUdeviceptr at[2];
  for (int device = 0; device < 2; ++device) {
    use(device);
    at[device] = allocate(bytes);
  }
  const auto elapsed = [&](std::initializer_list<int> devices) {
    const std::int64_t begin = control().now_ns();
    for (const int device : devices) EXPECT_OK(cuMemcpyHtoDAsync(at[device], host, bytes, nullptr));
    EXPECT_OK(cuCtxSynchronize());
    return control().now_ns() - begin;
  };
  // The stream is of the second device, but the link is that of the memory.
  const std::int64_t one = elapsed({1});
  EXPECT_LT(elapsed({0, 0}), 2.1 * static_cast<double>(one));
  EXPECT_GT(elapsed({0, 0}), 1.9 * static_cast<double>(one));
  use(0);
  EXPECT_OK(cuMemcpyHtoDAsync(at[0], host, bytes, nullptr));
  const std::int64_t begin = control().now_ns();
  use(1);
  EXPECT_OK(cuMemcpyHtoDAsync(at[1], host, bytes, nullptr));
  EXPECT_OK(cuCtxSynchronize());
  use(0);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_LT(control().now_ns() - begin, 1.1 * static_cast<double>(one));
  EXPECT_OK(cuMemFreeHost(host));
}

TEST_F(SeveralDevicesTest, SynchronisingOneDoesNotWaitForTheOther) {
  use(1);
  busy(nullptr, 5000);
  use(0);
  busy(nullptr, 10);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_LT(control().now_ns(), 1'000'000);
  use(1);
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_GT(control().now_ns(), 5'000'000);
}

TEST_F(SeveralDevicesTest, FreeingMemoryWaitsForItsOwnDeviceAlone) {
  use(1);
  const CUdeviceptr second = allocate(kPage);
  busy(nullptr, 5000);
  use(0);
  const CUdeviceptr first = allocate(kPage);
  EXPECT_OK(cuMemFree(first));
  EXPECT_LT(control().now_ns(), 3'000'000);
  EXPECT_OK(cuMemFree(second));
  EXPECT_GT(control().now_ns(), 5'000'000);
}

TEST_F(SeveralDevicesTest, LegacyStreamsOrderNothingOfTheOtherDevice) {
  use(0);
  const CUstream blocking = make_stream(CU_STREAM_DEFAULT);
  busy(blocking, 5000);
  use(1);
  busy(nullptr, 10);
  EXPECT_OK(cuStreamSynchronize(nullptr));
  EXPECT_LT(control().now_ns(), 1'000'000);
  use(0);
  EXPECT_OK(cuStreamSynchronize(nullptr));
  EXPECT_GT(control().now_ns(), 5'000'000);
}

TEST_F(SeveralDevicesTest, EventsOrderStreamsOfTwoDevices) {
  CUevent done = nullptr, other = nullptr;
  use(0);
  ASSERT_OK(cuEventCreate(&done, 0));
  const CUstream first = make_stream();
  busy(first, 1000);
  use(1);
  ASSERT_OK(cuEventCreate(&other, 0));
  const CUstream second = make_stream();
  // An event can be recorded only in streams of its own context; any stream may wait for it.
  EXPECT_EQ(cuEventRecord(done, second), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_OK(cuEventRecord(done, first));
  EXPECT_OK(cuStreamWaitEvent(second, done, 0));
  busy(second, 1000);
  EXPECT_OK(cuEventRecord(other, second));
  EXPECT_OK(cuEventSynchronize(other));
  EXPECT_GE(control().now_ns(), 2'000'000);
  EXPECT_OK(cuEventQuery(done));
  float between = 0;
  EXPECT_EQ(cuEventElapsedTime(&between, done, other), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(SeveralDevicesTest, AKernelIsRefusedInAStreamOfTheOtherDevice) {
  use(1);
  const CUstream stream = make_stream();
  use(0);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kPtx));
  ASSERT_OK(cuModuleGetFunction(&function, module, "nothing"));
  EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
}

}  // namespace
