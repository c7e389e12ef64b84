// SPDX-License-Identifier: Apache-2.0
// The runtime API over two simulated devices: each thread's device, peers, copies from one to the other.
#include <cuda_runtime.h>

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kBytes = 1 << 20;

class TwoDevices : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cudaSetDevice(0), cudaSuccess); }
  void TearDown() override { EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "a test leaves an error behind"; }

  static void* allocate_on(int device, int value) {
    void* memory = nullptr;
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&memory, kBytes), cudaSuccess);
    EXPECT_EQ(cudaMemset(memory, value, kBytes), cudaSuccess);
    return memory;
  }

  static int first_byte(const void* memory) {
    unsigned char byte = 0;
    EXPECT_EQ(cudaMemcpy(&byte, memory, 1, cudaMemcpyDeviceToHost), cudaSuccess);
    return byte;
  }
};

TEST_F(TwoDevices, AThreadChoosesItsOwn) {
  int count = 0, device = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  std::thread([] {
    int mine = -1;
    EXPECT_EQ(cudaGetDevice(&mine), cudaSuccess);
    EXPECT_EQ(mine, 0);
  }).join();
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
}

TEST_F(TwoDevices, TheyAreTwoPlacesOfOneKind) {
  cudaDeviceProp first, second;
  ASSERT_EQ(cudaGetDeviceProperties(&first, 0), cudaSuccess);
  ASSERT_EQ(cudaGetDeviceProperties(&second, 1), cudaSuccess);
  EXPECT_STREQ(first.name, second.name);
  EXPECT_NE(first.pciBusID, second.pciBusID);
  EXPECT_NE(std::memcmp(&first.uuid, &second.uuid, sizeof first.uuid), 0);
}

TEST_F(TwoDevices, MemoryIsTheCurrentDevices) {
  std::size_t before = 0, after = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  void* const memory = allocate_on(1, 1);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
  EXPECT_EQ(before, after);
  cudaPointerAttributes attributes;
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, memory), cudaSuccess);
  EXPECT_EQ(attributes.device, 1);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST_F(TwoDevices, CopiesGoFromOneToTheOther) {
  void* const from = allocate_on(0, 5);
  void* const to = allocate_on(1, 6);
  EXPECT_EQ(cudaMemcpyPeer(to, 1, from, 0, kBytes / 2), cudaSuccess);
  EXPECT_EQ(first_byte(to), 5);
  EXPECT_EQ(cudaMemset(to, 7, kBytes), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(from, to, kBytes, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(first_byte(from), 7);
  EXPECT_EQ(cudaMemcpyPeer(to, 2, from, 0, kBytes), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaFree(from), cudaSuccess);
  EXPECT_EQ(cudaFree(to), cudaSuccess);
}

TEST_F(TwoDevices, PeersAreNamedByDevice) {
  int can = 0;
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
  EXPECT_EQ(can, 1);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(cudaGetLastError(), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaSuccess);
}

TEST_F(TwoDevices, ResettingOneKeepsTheOther) {
  void* const kept = allocate_on(0, 9);
  allocate_on(1, 1);
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, total);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(first_byte(kept), 9);
  EXPECT_EQ(cudaFree(kept), cudaSuccess);
}

TEST_F(TwoDevices, AStreamsWorkIsItsDevices) {
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t written = nullptr;
  int device = -1;
  EXPECT_EQ(cudaStreamCreate(&first), cudaSuccess);
  EXPECT_EQ(cudaEventCreateWithFlags(&written, cudaEventDisableTiming), cudaSuccess);
  void* const memory = allocate_on(1, 0);
  EXPECT_EQ(cudaStreamCreate(&second), cudaSuccess);
  EXPECT_EQ(cudaStreamGetDevice(second, &device), cudaSuccess);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(cudaEventRecord(written, second), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(written, first), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second, written, 0), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(memory, 3, kBytes, second), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(first_byte(memory), 3);
  EXPECT_EQ(cudaStreamDestroy(first), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(second), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(written), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

}  // namespace
