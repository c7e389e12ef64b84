// SPDX-License-Identifier: Apache-2.0
// The simulator as an NVTX tool: the client here is NVTX's own header, which loads the library that
// NVTX_INJECTION64_PATH names.
#include <nvtx3/nvToolsExtMem.h>

#include <thread>
#include <utility>

#include "tests/simulated_cuda/device_fixture.h"
#include "tests/simulated_cuda/ptx.h"

namespace {

class NvtxTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    ASSERT_OK(cuMemAddressReserve(&heap_begin_, 8 * kPage, 0, 0, 0));
    nvtxMemVirtualRangeDesc_t range{8 * kPage, pointer(heap_begin_)};
    nvtxMemHeapDesc_t description{};
    description.extCompatID = NVTX_EXT_COMPATID_MEM;
    description.structSize = sizeof description;
    description.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
    description.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    description.typeSpecificDescSize = sizeof range;
    description.typeSpecificDesc = &range;
    heap_ = nvtxMemHeapRegister(nullptr, &description);
    ASSERT_NE(heap_, nullptr) << "the simulator is not attached";
  }

  static void* pointer(CUdeviceptr at) { return reinterpret_cast<void*>(at); }

  // Maps pages in the heap, as an allocator would.
  void map(CUdeviceptr at, std::size_t bytes) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemGenericAllocationHandle handle = 0;
    ASSERT_OK(cuMemCreate(&handle, bytes, &properties, 0));
    ASSERT_OK(cuMemMap(at, bytes, 0, handle, 0));
    CUmemAccessDesc access{};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    ASSERT_OK(cuMemSetAccess(at, bytes, &access, 1));
  }

  void add(CUdeviceptr at, std::size_t bytes) {
    nvtxMemVirtualRangeDesc_t range{bytes, pointer(at)};
    nvtxMemRegionsRegisterBatch_t batch{};
    batch.extCompatID = NVTX_EXT_COMPATID_MEM;
    batch.structSize = sizeof batch;
    batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    batch.heap = heap_;
    batch.regionCount = 1;
    batch.regionDescElementSize = sizeof range;
    batch.regionDescElements = &range;
    nvtxMemRegionsRegister(nullptr, &batch);
  }

  void remove(CUdeviceptr at) {
    nvtxMemRegionRef_t region{};
    region.pointer = pointer(at);
    nvtxMemRegionsUnregisterBatch_t batch{};
    batch.extCompatID = NVTX_EXT_COMPATID_MEM;
    batch.structSize = sizeof batch;
    batch.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
    batch.refCount = 1;
    batch.refElementSize = sizeof region;
    batch.refElements = &region;
    nvtxMemRegionsUnregister(nullptr, &batch);
  }

  CUdeviceptr heap_begin_ = 0;
  nvtxMemHeapHandle_t heap_ = nullptr;
};

// As exit handlers do it in a process that ends: what a library's unloading runs again has its accesses declared.
TEST_F(NvtxTest, RangesArePushedBehindTheDestructorsOfTheThreadToo) {
  static const auto push_and_pop = [] {
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = "a range";
    const int level = nvtxDomainRangePushEx(nullptr, &attributes);
    return std::pair(level, nvtxDomainRangePop(nullptr));
  };
  static std::pair<int, int> late;
  std::thread([] {
    struct AtTheEnd {
      bool is_used = false;
      ~AtTheEnd() { late = push_and_pop(); }
    };
    // Made before the first range, so destroyed behind whatever the simulator keeps of it.
    static thread_local AtTheEnd at_the_end;
    at_the_end.is_used = true;
    EXPECT_EQ(push_and_pop(), std::pair(0, 0));
  }).join();
  EXPECT_EQ(late, std::pair(0, 0));
}

TEST_F(NvtxTest, MappingsInAHeapAreNobodysBuffers) {
  const std::uint64_t before = statistics().live_bytes;
  map(heap_begin_, 2 * kPage);
  EXPECT_EQ(statistics().live_bytes, before);
  CUdeviceptr own = 0;
  ASSERT_OK(cuMemAddressReserve(&own, kPage, 0, 0, 0));
  map(own, kPage);
  EXPECT_EQ(statistics().live_bytes, before + kPage) << "outside a heap a mapping is a buffer";
}

TEST_F(NvtxTest, RegionsAreTheBuffers) {
  const std::uint64_t before = statistics().live_bytes;
  map(heap_begin_, 2 * kPage);
  add(heap_begin_ + 512, 1000);
  EXPECT_EQ(statistics().live_bytes, before + 1000);
  remove(heap_begin_ + 512);
  EXPECT_EQ(statistics().live_bytes, before);
  remove(heap_begin_ + 512);
  EXPECT_EQ(statistics().live_bytes, before);
}

TEST_F(NvtxTest, AKernelMixesTheRegionItNamesAndNothingElseOfThePage) {
  map(heap_begin_, kPage);
  add(heap_begin_, 1000);
  add(heap_begin_ + 4096, 1000);
  CUmodule module = nullptr;
  CUfunction mystery = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kPtx));
  ASSERT_OK(cuModuleGetFunction(&mystery, module, "mystery"));
  CUdeviceptr to = heap_begin_, from = heap_begin_ + 4096;
  void* parameters[] = {&to, &from};
  ASSERT_OK(cuLaunchKernel(mystery, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT_NE(read<unsigned>(to, 250), std::vector<unsigned>(250, 0));
  EXPECT_EQ(read<unsigned>(to + 1000, 700), std::vector<unsigned>(700, 0));
}

// The library hands out memory that another buffer used before: what was not written since counts as zero, as with
// cuMemAlloc.
TEST_F(NvtxTest, ARegionIsZeroWhenItIsFirstAccessed) {
  map(heap_begin_, kPage);
  EXPECT_OK(cuMemsetD8(heap_begin_, 9, kPage));
  add(heap_begin_, 4096);
  EXPECT_EQ(read<unsigned>(heap_begin_, 4), std::vector<unsigned>(4, 0));
  EXPECT_EQ(read<unsigned>(heap_begin_ + 4096, 1)[0], 0x09090909u);
}

TEST_F(NvtxTest, ARegionCanChangeItsSize) {
  const std::uint64_t before = statistics().live_bytes;
  map(heap_begin_, kPage);
  add(heap_begin_, 1000);
  write<unsigned>(heap_begin_, {5});
  nvtxMemVirtualRangeDesc_t range{3000, pointer(heap_begin_)};
  nvtxMemRegionsResizeBatch_t batch{};
  batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  batch.structSize = sizeof batch;
  batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  batch.regionDescCount = 1;
  batch.regionDescElementSize = sizeof range;
  batch.regionDescElements = &range;
  nvtxMemRegionsResize(nullptr, &batch);
  EXPECT_EQ(statistics().live_bytes, before + 3000);
  EXPECT_EQ(read<unsigned>(heap_begin_, 1)[0], 5u);
}

TEST_F(NvtxTest, ResettingOrUnregisteringAHeapEndsItsRegions) {
  const std::uint64_t before = statistics().live_bytes;
  map(heap_begin_, kPage);
  add(heap_begin_, 1000);
  add(heap_begin_ + 4096, 1000);
  nvtxMemHeapReset(nullptr, heap_);
  EXPECT_EQ(statistics().live_bytes, before);
  add(heap_begin_, 1000);
  nvtxMemHeapUnregister(nullptr, heap_);
  EXPECT_EQ(statistics().live_bytes, before);
}

// Ranges with other names, and copies after the range, have no effect.
TEST_F(NvtxTest, CopiesInARangeOfThatNameMayReadWhatOthersWrite) {
  CUdeviceptr memory = 0;
  CUstream streams[2] = {};
  ASSERT_OK(cuMemAlloc(&memory, kPage));
  for (CUstream& stream : streams) ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  void* pinned = nullptr;
  ASSERT_OK(cuMemAllocHost(&pinned, kPage));
  const auto races_in = [&](const char* name) {
    const std::uint64_t before = statistics().races;
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = name;
    EXPECT_OK(cuMemsetD8Async(memory, 1, kPage, streams[0]));
    if (name != nullptr) nvtxDomainRangePushEx(nullptr, &attributes);
    EXPECT_OK(cuMemcpyDtoHAsync(pinned, memory, kPage, streams[1]));
    if (name != nullptr) nvtxDomainRangePop(nullptr);
    EXPECT_OK(cuCtxSynchronize());
    return statistics().races - before;
  };
  EXPECT_EQ(races_in("unordered reads"), 0u);
  EXPECT_EQ(races_in("reads"), 1u);
  EXPECT_EQ(races_in(nullptr), 1u);
}

}  // namespace
