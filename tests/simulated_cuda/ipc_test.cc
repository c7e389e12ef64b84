// SPDX-License-Identifier: Apache-2.0
// Memory shared between processes. The other process is a fork that creates a device of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "tests/simulated_cuda/device_fixture.h"

namespace {

constexpr std::size_t kBytes = std::size_t{3} << 20;
constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr unsigned kFlags = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;

class IpcTest : public DeviceTest {
 protected:
  // True if all expectations of `body` hold in another process with a device of its own.
  bool elsewhere(const std::function<void()>& body) {
    const pid_t child = fork();
    if (child == 0) {
      SetUp();
      body();
      _exit(HasFailure() ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status == 0;
  }

  // Copies and waits, because processes do not wait for each other's work.
  static void put(CUdeviceptr at, const std::vector<unsigned>& values) {
    write(at, values);
    EXPECT_OK(cuCtxSynchronize());
  }

  static CUipcMemHandle handle_of(CUdeviceptr at) {
    CUipcMemHandle handle{};
    EXPECT_OK(cuIpcGetMemHandle(&handle, at));
    return handle;
  }

  static CUdeviceptr open(const CUipcMemHandle& handle) {
    CUdeviceptr at = 0;
    EXPECT_OK(cuIpcOpenMemHandle(&at, handle, kFlags));
    return at;
  }

  static CUmemAllocationProp exportable() {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    properties.requestedHandleTypes = kDescriptor;
    return properties;
  }

  static CUmemGenericAllocationHandle create() {
    CUmemGenericAllocationHandle handle = 0;
    const CUmemAllocationProp properties = exportable();
    EXPECT_OK(cuMemCreate(&handle, kPage, &properties, 0));
    return handle;
  }

  static int export_of(CUmemGenericAllocationHandle handle) {
    int file = -1;
    EXPECT_OK(cuMemExportToShareableHandle(&file, handle, kDescriptor, 0));
    return file;
  }

  static CUmemGenericAllocationHandle import(int file) {
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_OK(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(file)),
                                             kDescriptor));
    return handle;
  }

  static CUdeviceptr map(CUmemGenericAllocationHandle handle) {
    CUdeviceptr at = 0;
    EXPECT_OK(cuMemAddressReserve(&at, kPage, 0, 0, 0));
    EXPECT_OK(cuMemMap(at, kPage, 0, handle, 0));
    CUmemAccessDesc both{};
    both.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    both.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_OK(cuMemSetAccess(at, kPage, &both, 1));
    return at;
  }
};

TEST_F(IpcTest, AnotherProcessReadsAndWritesTheSameMemory) {
  const CUdeviceptr at = allocate(kBytes);
  put(at, {1, 2, 3});
  const CUipcMemHandle handle = handle_of(at);
  EXPECT_TRUE(elsewhere([&] {
    const CUdeviceptr there = open(handle);
    EXPECT_EQ(read<unsigned>(there, 3), (std::vector<unsigned>{1, 2, 3}));
    put(there + kBytes - 4, {7});
    EXPECT_OK(cuIpcCloseMemHandle(there));
  }));
  EXPECT_EQ(read<unsigned>(at + kBytes - 4, 1), std::vector<unsigned>{7});
}

TEST_F(IpcTest, WhatAnotherProcessWroteIsNotClearedByTheFirstUseHere) {
  const CUdeviceptr at = allocate(kBytes);
  const CUipcMemHandle handle = handle_of(at);
  EXPECT_TRUE(elsewhere([&] { put(open(handle), {7, 8}); }));
  EXPECT_EQ(read<unsigned>(at, 3), (std::vector<unsigned>{7, 8, 0}));
}

TEST_F(IpcTest, SmallAllocationsAreFoundInThePageThatTheyShare) {
  const CUdeviceptr first = allocate(4096);
  const CUdeviceptr second = allocate(4096);
  put(first, {1});
  put(second, {2});
  const CUipcMemHandle handles[] = {handle_of(first), handle_of(second)};
  EXPECT_TRUE(elsewhere([&] {
    EXPECT_EQ(read<unsigned>(open(handles[1]), 1), std::vector<unsigned>{2});
    EXPECT_EQ(read<unsigned>(open(handles[0]), 1), std::vector<unsigned>{1});
  }));
}

TEST_F(IpcTest, AHandleIsOpenedOnceAndClosedAsOften) {
  const CUipcMemHandle handle = handle_of(allocate(kBytes));
  EXPECT_TRUE(elsewhere([&] {
    const CUdeviceptr at = open(handle);
    EXPECT_EQ(open(handle), at);
    EXPECT_OK(cuIpcCloseMemHandle(at));
    EXPECT_EQ(read<unsigned>(at, 1), std::vector<unsigned>{0});
    EXPECT_EQ(cuMemFree(at), CUDA_ERROR_INVALID_VALUE);
    EXPECT_OK(cuIpcCloseMemHandle(at));
    EXPECT_EQ(cuIpcCloseMemHandle(at), CUDA_ERROR_INVALID_VALUE);
    unsigned word = 0;
    EXPECT_NE(cuMemcpyDtoH(&word, at, sizeof word), CUDA_SUCCESS);
  }));
}

TEST_F(IpcTest, MemoryOfAnotherProcessTakesNothingHere) {
  const CUipcMemHandle handle = handle_of(allocate(kBytes));
  EXPECT_TRUE(elsewhere([&] {
    open(handle);
    EXPECT_EQ(statistics().physical_bytes, 0u);
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    const CUdeviceptr at = open(handle);
    EXPECT_OK(cuMemGetAddressRange(&base, &bytes, at + 100));
    EXPECT_EQ(base, at);
    EXPECT_EQ(bytes, kBytes);
  }));
}

TEST_F(IpcTest, TheEndOfAContextClosesWhatItHadOpen) {
  const CUipcMemHandle handle = handle_of(allocate(kBytes));
  EXPECT_TRUE(elsewhere([&] {
    CUcontext second = nullptr;
    EXPECT_OK(cuCtxCreate(&second, nullptr, 0, 0));
    const CUdeviceptr at = open(handle);
    EXPECT_OK(cuCtxDestroy(second));
    EXPECT_OK(cuCtxSetCurrent(context_));
    EXPECT_EQ(cuIpcCloseMemHandle(at), CUDA_ERROR_INVALID_VALUE);
  }));
}

TEST_F(IpcTest, ReusedAddressesHaveAnotherHandle) {
  const CUdeviceptr at = allocate(4096);
  const CUipcMemHandle before = handle_of(at);
  EXPECT_OK(cuMemFree(at));
  ASSERT_EQ(allocate(4096), at);
  const CUipcMemHandle after = handle_of(at);
  EXPECT_NE(std::string(before.reserved, sizeof before), std::string(after.reserved, sizeof after));
}

TEST_F(IpcTest, WhatCanNotBeSharedIsRefused) {
  CUipcMemHandle handle{};
  EXPECT_EQ(cuIpcGetMemHandle(nullptr, allocate(64)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcGetMemHandle(&handle, 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcGetMemHandle(&handle, map(create())), CUDA_ERROR_INVALID_VALUE) << "mapped by the program";
  CUdeviceptr at = 0;
  EXPECT_OK(cuMemAllocAsync(&at, kBytes, nullptr));
  EXPECT_EQ(cuIpcGetMemHandle(&handle, at), CUDA_ERROR_INVALID_VALUE) << "of a pool";
  EXPECT_OK(cuMemAllocManaged(&at, kBytes, CU_MEM_ATTACH_GLOBAL));
  EXPECT_EQ(cuIpcGetMemHandle(&handle, at), CUDA_ERROR_INVALID_VALUE) << "managed";
}

TEST_F(IpcTest, HandlesAreNotOpenedWhereTheyWereMadeNorWhenTheyAreNone) {
  CUdeviceptr at = 0;
  const CUipcMemHandle handle = handle_of(allocate(kBytes));
  EXPECT_EQ(cuIpcOpenMemHandle(&at, handle, kFlags), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuIpcOpenMemHandle(&at, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcOpenMemHandle(&at, CUipcMemHandle{}, kFlags), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuIpcCloseMemHandle(64), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(IpcTest, ExportedMemoryIsTheSameInAnotherProcess) {
  const CUmemGenericAllocationHandle handle = create();
  const CUdeviceptr at = map(handle);
  put(at, {1, 2, 3});
  const int file = export_of(handle);
  EXPECT_TRUE(elsewhere([&] {
    const CUdeviceptr there = map(import(file));
    EXPECT_EQ(read<unsigned>(there, 3), (std::vector<unsigned>{1, 2, 3}));
    put(there, {4});
  }));
  EXPECT_EQ(read<unsigned>(at, 2), (std::vector<unsigned>{4, 2}));
  close(file);
}

// The memory names its device.
TEST_F(IpcTest, MemoryIsCreatedExportedAndReleasedWithoutAContext) {
  CUcontext context = nullptr;
  EXPECT_OK(cuCtxPopCurrent(&context));
  const CUmemGenericAllocationHandle handle = create();
  const int file = export_of(handle);
  EXPECT_OK(cuMemRelease(handle));
  EXPECT_OK(cuCtxPushCurrent(context));
  EXPECT_NE(import(file), 0u);
  close(file);
}

TEST_F(IpcTest, ImportedAgainItIsTheSameMemoryInThisProcess) {
  const CUmemGenericAllocationHandle handle = create();
  const CUdeviceptr at = map(handle);
  const int file = export_of(handle);
  const CUmemGenericAllocationHandle again = import(file);
  close(file);
  const CUdeviceptr other = map(again);
  put(at, {5});
  EXPECT_EQ(read<unsigned>(other, 1), std::vector<unsigned>{5});
  EXPECT_EQ(statistics().physical_bytes, kPage);
  CUmemAllocationProp properties{};
  EXPECT_OK(cuMemGetAllocationPropertiesFromHandle(&properties, again));
  EXPECT_EQ(properties.requestedHandleTypes, kDescriptor);
}

TEST_F(IpcTest, ADescriptorKeepsItsMemoryWhenNobodyElseDoes) {
  const CUmemGenericAllocationHandle handle = create();
  const CUdeviceptr at = map(handle);
  put(at, {6});
  const int file = export_of(handle);
  EXPECT_OK(cuMemUnmap(at, kPage));
  EXPECT_OK(cuMemRelease(handle));
  EXPECT_EQ(statistics().physical_bytes, 0u);
  EXPECT_EQ(read<unsigned>(map(import(file)), 1), std::vector<unsigned>{6});
  close(file);
}

TEST_F(IpcTest, OnlyWhatWasCreatedForItIsExported) {
  CUmemAllocationProp properties = exportable();
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_OK(cuMemCreate(&handle, kPage, &properties, 0));
  int file = -1;
  EXPECT_EQ(cuMemExportToShareableHandle(&file, handle, kDescriptor, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemExportToShareableHandle(&file, create(), kDescriptor, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(file, -1);
  EXPECT_EQ(cuMemImportFromShareableHandle(&handle, nullptr, kDescriptor), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(IpcTest, RangesOfDeviceMemoryHaveDescriptorsForOtherDevices) {
  constexpr auto kType = CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
  const CUdeviceptr allocated = allocate(kBytes), mapped = map(create());
  for (const CUdeviceptr at : {allocated, mapped, mapped + 4096}) {
    int file = -1;
    EXPECT_OK(cuMemGetHandleForAddressRange(&file, at, 4096, kType, 0));
    EXPECT_EQ(close(file), 0);
  }
  int file = -1;
  EXPECT_EQ(cuMemGetHandleForAddressRange(&file, allocated + 1, 4096, kType, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemGetHandleForAddressRange(&file, allocated, 100, kType, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemGetHandleForAddressRange(&file, allocated, 0, kType, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemGetHandleForAddressRange(&file, mapped, 2 * kPage, kType, 0), CUDA_ERROR_INVALID_VALUE) << "a gap";
  EXPECT_EQ(cuMemGetHandleForAddressRange(nullptr, mapped, 4096, kType, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(file, -1);
}

// Other processes can not read contents that are tags.
TEST_F(IpcTest, TagsAreSharedInOneProcessOnly) {
  control().reset();
  ASSERT_EQ(control().configure("memory", "tagged"), nullptr);
  ASSERT_OK(cuInit(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, 0));
  ASSERT_OK(cuCtxSetCurrent(context_));
  CUipcMemHandle handle{};
  EXPECT_EQ(cuIpcGetMemHandle(&handle, allocate(kBytes)), CUDA_ERROR_NOT_SUPPORTED);
  const CUmemGenericAllocationHandle created = create();
  const int file = export_of(created);
  EXPECT_EQ(import(file), created);
  close(file);
}

}  // namespace
