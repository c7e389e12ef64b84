// SPDX-License-Identifier: Apache-2.0
// Two devices and one address space: which of them may access what, and copies from one to the other.
#include "tests/simulated_cuda/two_devices_fixture.h"

namespace {

struct Dim3 {
  unsigned x, y, z;
};

}  // namespace

// Not instrumented, like code on a device: it ends in the middle if it faults.
extern "C" __attribute__((visibility("default"), no_sanitize("thread", "address", "undefined"))) void simulated_scale(
    void** args, Dim3, Dim3) {
  auto* values = *static_cast<float**>(args[0]);
  for (int i = 0; i < *static_cast<int*>(args[2]); ++i) values[i] *= *static_cast<float*>(args[1]);
}

namespace {

constexpr std::size_t kFew = 8;

class PeerTest : public TwoDevicesTest {
 protected:
  // Runs a kernel of the device with `at` as both parameters, and waits for it.
  CUresult mixed_by(int device, CUdeviceptr at) {
    void* parameters[] = {&at, &at};
    return run(device, "mystery", parameters);
  }
  CUresult scaled_by(int device, CUdeviceptr at) {
    float factor = 2;
    int count = kFew;
    void* parameters[] = {&at, &factor, &count};
    return run(device, "_Z5scalePffi", parameters);
  }

  CUresult run(int device, const char* name, void** parameters) {
    use(device);
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    EXPECT_OK(cuModuleLoadData(&module, kPtx));
    EXPECT_OK(cuModuleGetFunction(&function, module, name));
    EXPECT_OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
    return cuCtxSynchronize();
  }

  CUdeviceptr allocate_on(int device, std::size_t bytes = kPage) {
    use(device);
    return allocate(bytes);
  }

  static constexpr CUresult kFault = CUDA_ERROR_ILLEGAL_ADDRESS;
};

TEST_F(PeerTest, DevicesCanBePeersOfOneAnother) {
  int can = 0, supported = 0;
  EXPECT_OK(cuDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  EXPECT_OK(cuDeviceGetP2PAttribute(&supported, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 0));
  EXPECT_EQ(supported, 1);
  EXPECT_EQ(cuDeviceGetP2PAttribute(&supported, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 1),
            CUDA_ERROR_INVALID_DEVICE);
  use(0);
  EXPECT_EQ(cuCtxDisablePeerAccess(contexts_[1]), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_EQ(cuCtxEnablePeerAccess(contexts_[0], 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  EXPECT_OK(cuCtxEnablePeerAccess(contexts_[1], 0));
  EXPECT_EQ(cuCtxEnablePeerAccess(contexts_[1], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_OK(cuCtxDisablePeerAccess(contexts_[1]));
}

TEST_F(PeerTest, AllocatedMemoryIsItsOwnDevicesAlone) { EXPECT_EQ(mixed_by(1, allocate_on(0)), kFault); }

TEST_F(PeerTest, SoAHostImplementationFaultsThereToo) {
  const CUdeviceptr at = allocate_on(0);
  EXPECT_OK(scaled_by(0, at));
  EXPECT_EQ(scaled_by(1, at), kFault);
}

TEST_F(PeerTest, PeersMayAccessItFromThenOnAndBefore) {
  const CUdeviceptr before = allocate_on(0);
  use(1);
  EXPECT_OK(cuCtxEnablePeerAccess(contexts_[0], 0));
  const CUdeviceptr after = allocate_on(0, 64);
  write(before, std::vector<float>(kFew, 3));
  write(after, std::vector<float>(kFew, 3));
  EXPECT_OK(scaled_by(1, before));
  EXPECT_OK(scaled_by(1, after));
  EXPECT_OK(mixed_by(1, allocate_on(0)));
  EXPECT_EQ(read<float>(before, kFew), std::vector<float>(kFew, 6));
  EXPECT_EQ(read<float>(after, kFew), std::vector<float>(kFew, 6));
}

TEST_F(PeerTest, AccessGoesOneWayAndCanBeTakenBack) {
  use(1);
  EXPECT_OK(cuCtxEnablePeerAccess(contexts_[0], 0));
  const CUdeviceptr at = allocate_on(0);
  EXPECT_OK(mixed_by(1, at));
  use(1);
  EXPECT_OK(cuCtxDisablePeerAccess(contexts_[0]));
  EXPECT_EQ(mixed_by(1, at), kFault);
}

TEST_F(PeerTest, TheOtherWayIsNotOpened) {
  use(1);
  EXPECT_OK(cuCtxEnablePeerAccess(contexts_[0], 0));
  EXPECT_EQ(mixed_by(0, allocate_on(1)), kFault);
}

TEST_F(PeerTest, ResettingADeviceEndsWhatItsContextHadOpened) {
  use(1);
  EXPECT_OK(cuCtxEnablePeerAccess(contexts_[0], 0));
  EXPECT_OK(cuDevicePrimaryCtxReset(1));
  EXPECT_EQ(mixed_by(1, allocate_on(0)), kFault);
}

TEST_F(PeerTest, MappedMemoryAsksForAccessOfEachDevice) {
  use(0);
  const CUdeviceptr at = mapped_page(0);
  unsigned long long flags = 7;
  const CUmemLocation second{CU_MEM_LOCATION_TYPE_DEVICE, 1};
  EXPECT_OK(cuMemGetAccess(&flags, &second, at));
  EXPECT_EQ(flags, static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_NONE));
  grant(at, kPage, 1);
  EXPECT_OK(cuMemGetAccess(&flags, &second, at));
  EXPECT_EQ(flags, static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  EXPECT_OK(mixed_by(0, at));
  EXPECT_OK(scaled_by(1, at));
  grant(at, kPage, 1, CU_MEM_ACCESS_FLAGS_PROT_READ);
  EXPECT_OK(scaled_by(0, at));
  EXPECT_EQ(scaled_by(1, at), kFault);
}

TEST_F(PeerTest, WithoutItTheOtherDeviceFaults) {
  use(1);
  EXPECT_EQ(scaled_by(0, mapped_page(1)), kFault);
}

TEST_F(PeerTest, PeersOfContextsAreNoneOfMappedMemory) {
  use(0);
  EXPECT_OK(cuCtxEnablePeerAccess(contexts_[1], 0));
  EXPECT_EQ(mixed_by(0, mapped_page(1)), kFault);
}

TEST_F(PeerTest, ADeviceMayBeLeftOutOfItsOwnMemory) {
  use(0);
  const CUdeviceptr at = mapped_page(0);
  grant(at, kPage, 1);
  grant(at, kPage, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  EXPECT_OK(scaled_by(1, at));
  EXPECT_EQ(scaled_by(0, at), kFault);
}

TEST_F(PeerTest, ManagedAndPinnedMemoryIsEverybodys) {
  use(0);
  CUdeviceptr managed = 0;
  void* pinned = nullptr;
  ASSERT_OK(cuMemAllocManaged(&managed, kPage, CU_MEM_ATTACH_GLOBAL));
  ASSERT_OK(cuMemAllocHost(&pinned, kPage));
  EXPECT_OK(scaled_by(1, managed));
  EXPECT_OK(scaled_by(0, managed));
  EXPECT_OK(scaled_by(1, reinterpret_cast<CUdeviceptr>(pinned)));
}

TEST_F(PeerTest, APoolSaysItselfWhoMayAccessItsMemory) {
  use(0);
  CUmemoryPool pool = nullptr;
  ASSERT_OK(cuDeviceGetDefaultMemPool(&pool, 0));
  CUdeviceptr before = 0, after = 0;
  EXPECT_OK(cuMemAllocAsync(&before, 64, nullptr));
  EXPECT_OK(cuStreamSynchronize(nullptr));
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  EXPECT_OK(cuMemPoolSetAccess(pool, &access, 1));
  EXPECT_OK(cuMemAllocAsync(&after, 64, nullptr));
  EXPECT_OK(cuStreamSynchronize(nullptr));
  EXPECT_OK(scaled_by(1, before));
  EXPECT_OK(scaled_by(1, after));
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  EXPECT_OK(cuMemPoolSetAccess(pool, &access, 1));
  access.location.id = 0;
  EXPECT_EQ(cuMemPoolSetAccess(pool, &access, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(scaled_by(1, before), kFault);
}

TEST_F(PeerTest, PeersOfContextsAreNoneOfPools) {
  use(1);
  EXPECT_OK(cuCtxEnablePeerAccess(contexts_[0], 0));
  use(0);
  CUdeviceptr at = 0;
  EXPECT_OK(cuMemAllocAsync(&at, 64, nullptr));
  EXPECT_OK(cuStreamSynchronize(nullptr));
  EXPECT_EQ(scaled_by(1, at), kFault);
}

TEST_F(PeerTest, AStreamAllocatesFromThePoolOfItsDevice) {
  const std::size_t first = free_bytes(0), second = free_bytes(1);
  use(1);
  const CUstream stream = make_stream();
  use(0);
  CUdeviceptr at = 0;
  EXPECT_OK(cuMemAllocAsync(&at, 4 * kPage, stream));
  EXPECT_EQ(free_bytes(0), first);
  EXPECT_EQ(free_bytes(1), second - 4 * kPage);
}

TEST_F(PeerTest, CopiesBetweenAllocationsNeedNoPeers) {
  const CUdeviceptr from = allocate_on(0), to = allocate_on(1);
  use(0);
  write<unsigned>(from, {1, 2, 3});
  EXPECT_OK(cuMemcpyPeer(to, contexts_[1], from, contexts_[0], 12));
  EXPECT_EQ(read<unsigned>(to, 3), (std::vector<unsigned>{1, 2, 3}));
  write<unsigned>(from, {4, 5, 6});
  EXPECT_OK(cuMemcpyDtoD(to, from, 12));
  EXPECT_EQ(read<unsigned>(to, 3), (std::vector<unsigned>{4, 5, 6}));
  EXPECT_EQ(cuMemcpyPeer(to, reinterpret_cast<CUcontext>(this), from, nullptr, 12), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(PeerTest, ACopyOfMappedMemoryBetweenDevicesIsOneOfPeers) {
  use(0);
  const CUdeviceptr from = mapped_page(0), to = mapped_page(1);
  write<unsigned>(from, {1, 2, 3});
  EXPECT_OK(cuMemcpyPeer(to, contexts_[1], from, contexts_[0], 12));
  use(1);
  EXPECT_EQ(read<unsigned>(to, 3), (std::vector<unsigned>{1, 2, 3}));
  // As a copy within one device it is done by that device, which may not access the source.
  EXPECT_OK(cuMemcpyDtoD(to, from, 12));
  EXPECT_EQ(cuCtxSynchronize(), kFault);
}

TEST_F(PeerTest, ACopyBetweenDevicesTakesTheLink) {
  const std::size_t bytes = 64 << 20;
  void* host = nullptr;
  const CUdeviceptr from = allocate_on(0, bytes), same = allocate_on(0, bytes), to = allocate_on(1, bytes);
  use(0);
  ASSERT_OK(cuMemAllocHost(&host, bytes));
  const auto elapsed = [&](auto copy) {
    const std::int64_t begin = control().now_ns();
    copy();
    EXPECT_OK(cuCtxSynchronize());
    return static_cast<double>(control().now_ns() - begin);
  };
  const double link = elapsed([&] { EXPECT_OK(cuMemcpyDtoHAsync(host, from, bytes, nullptr)); });
  const double inside = elapsed([&] { EXPECT_OK(cuMemcpyDtoDAsync(same, from, bytes, nullptr)); });
  const double between =
      elapsed([&] { EXPECT_OK(cuMemcpyPeerAsync(to, contexts_[1], from, contexts_[0], bytes, nullptr)); });
  EXPECT_LT(10 * inside, between);
  EXPECT_GT(between, 0.98 * link);
  EXPECT_LT(between, 1.02 * link);
  EXPECT_OK(cuMemFreeHost(host));
}

TEST_F(PeerTest, AKernelIsNoFasterThanTheLinkThatItsOperandsComeOver) {
  const std::size_t bytes = 64 << 20;
  const CUdeviceptr at = allocate_on(0, bytes);
  use(1);
  EXPECT_OK(cuCtxEnablePeerAccess(contexts_[0], 0));
  const auto elapsed = [&](int device) {
    use(device);
    const std::int64_t begin = control().now_ns();
    EXPECT_OK(cuMemsetD8Async(at, 1, bytes, nullptr));
    EXPECT_OK(cuCtxSynchronize());
    return control().now_ns() - begin;
  };
  EXPECT_GT(elapsed(1), 10 * elapsed(0));
}

TEST_F(PeerTest, InLegacyStreamsItComesBetweenTheWorkOfBothDevices) {
  const CUdeviceptr from = allocate_on(0), to = allocate_on(1);
  use(1);
  const CUstream other = make_stream(CU_STREAM_DEFAULT);
  busy(other, 3000);
  use(0);
  EXPECT_OK(cuMemcpyDtoD(to, from, 4));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_GT(control().now_ns(), 3'000'000);
  // Work that follows on the other device is ordered after the copy: otherwise the race checker would report it.
  use(1);
  EXPECT_OK(cuMemsetD8Async(to, 1, 4, other));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(statistics().races, 0u);
}

TEST_F(PeerTest, TheRaceCheckerSeesWhatNoEventOrders) {
  const CUdeviceptr from = allocate_on(0), to = allocate_on(1);
  use(0);
  const CUstream first = make_stream();
  EXPECT_OK(cuMemcpyPeerAsync(to, contexts_[1], from, contexts_[0], 64, first));
  use(1);
  const CUstream second = make_stream();
  EXPECT_OK(cuMemsetD8Async(to, 1, 64, second));
  EXPECT_OK(cuStreamSynchronize(second));
  EXPECT_OK(cuStreamSynchronize(first));
  EXPECT_EQ(statistics().races, 1u);
}

TEST_F(PeerTest, AnEventOrdersIt) {
  const CUdeviceptr from = allocate_on(0), to = allocate_on(1);
  use(0);
  const CUstream first = make_stream();
  CUevent copied = nullptr;
  ASSERT_OK(cuEventCreate(&copied, CU_EVENT_DISABLE_TIMING));
  EXPECT_OK(cuMemcpyPeerAsync(to, contexts_[1], from, contexts_[0], 64, first));
  EXPECT_OK(cuEventRecord(copied, first));
  use(1);
  const CUstream second = make_stream();
  EXPECT_OK(cuStreamWaitEvent(second, copied, 0));
  EXPECT_OK(cuMemsetD8Async(to, 1, 64, second));
  EXPECT_OK(cuStreamSynchronize(second));
  EXPECT_EQ(statistics().races, 0u);
}

TEST_F(PeerTest, ALibrarysKernelsAndVariablesAreOnEachDevice) {
  use(0);
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  ASSERT_OK(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  ASSERT_OK(cuLibraryGetKernel(&kernel, library, "nothing"));
  CUdeviceptr counters[2] = {};
  CUfunction functions[2] = {};
  for (int device = 0; device < 2; ++device) {
    use(device);
    std::size_t bytes = 0;
    EXPECT_OK(cuLibraryGetGlobal(&counters[device], &bytes, library, "counter"));
    EXPECT_EQ(bytes, 4u);
    EXPECT_OK(cuKernelGetFunction(&functions[device], kernel));
    EXPECT_OK(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    int ordinal = -1;
    EXPECT_OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, counters[device]));
    EXPECT_EQ(ordinal, device);
  }
  EXPECT_NE(counters[0], counters[1]);
  EXPECT_NE(functions[0], functions[1]);
  write<unsigned>(counters[1], {9});
  EXPECT_EQ(read<unsigned>(counters[0], 1)[0], 7u);
  // A function belongs to one device.
  EXPECT_EQ(cuLaunchKernel(functions[0], 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_OK(cuLibraryUnload(library));
}

TEST_F(PeerTest, NodesOfAGraphRunOnTheDeviceWhereTheyWereRecorded) {
  const CUdeviceptr first = allocate_on(0, 64), second = allocate_on(1, 64);
  use(1);
  CUevent there = nullptr;
  ASSERT_OK(cuEventCreate(&there, CU_EVENT_DISABLE_TIMING));
  const CUstream other = make_stream();
  use(0);
  CUevent forked = nullptr;
  ASSERT_OK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
  const CUstream stream = make_stream();
  CUgraph graph = nullptr;
  CUgraphExec ready = nullptr;
  ASSERT_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_OK(cuMemsetD8Async(first, 1, 64, stream));
  EXPECT_OK(cuEventRecord(forked, stream));
  EXPECT_OK(cuStreamWaitEvent(other, forked, 0));
  EXPECT_OK(cuMemsetD8Async(second, 2, 64, other));
  EXPECT_OK(cuEventRecord(there, other));
  EXPECT_OK(cuStreamWaitEvent(stream, there, 0));
  ASSERT_OK(cuStreamEndCapture(stream, &graph));
  ASSERT_OK(cuGraphInstantiate(&ready, graph, 0));
  EXPECT_OK(cuGraphLaunch(ready, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(read<unsigned char>(second, 1)[0], 2);
}

TEST_F(PeerTest, MemoryOfAGraphIsForTheDevicesThatItsNodeNames) {
  CUmemAccessDesc other{};
  other.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  other.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  use(1);
  const CUstream there = make_stream();
  use(0);
  const CUstream here = make_stream();
  for (const bool is_named : {true, false}) {
    CUDA_MEM_ALLOC_NODE_PARAMS wanted{};
    wanted.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    wanted.accessDescs = is_named ? &other : nullptr;
    wanted.accessDescCount = is_named ? 1 : 0;
    wanted.bytesize = kPage;
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    CUgraphExec ready = nullptr;
    ASSERT_OK(cuGraphCreate(&graph, 0));
    ASSERT_OK(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &wanted));
    ASSERT_OK(cuGraphInstantiate(&ready, graph, 0));
    EXPECT_OK(cuGraphLaunch(ready, here));
    EXPECT_OK(cuStreamSynchronize(here));
    EXPECT_OK(cuMemsetD8Async(wanted.dptr, 1, 64, there));
    EXPECT_EQ(cuStreamSynchronize(there), is_named ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS);
  }
}

}  // namespace
