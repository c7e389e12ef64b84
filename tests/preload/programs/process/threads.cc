// SPDX-License-Identifier: Apache-2.0
// Threads that allocate, launch, copy and free on streams of their own, at the same time. No kernels: what the
// simulated device computes from an address depends on the order of allocations.
#include "tests/preload/programs/small.h"

#include <array>
#include <string>
#include <thread>
#include <vector>

namespace {

std::string work(int number) {
  CHECK(cuCtxSetCurrent(context));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  std::array<CUdeviceptr, 3> own{};
  std::vector<std::uint64_t> host(BYTES / 16);
  for (CUdeviceptr& buffer : own) {
    CHECK(cuMemAlloc(&buffer, BYTES / 2));
    CHECK(cuMemsetD32Async(buffer, static_cast<unsigned>(number), BYTES / 8, stream));
  }
  for (int round = 0; round < 6; ++round) {
    const auto index = static_cast<std::size_t>(round % 3);
    CHECK(cuMemcpyDtoDAsync(own[index], own[(index + 1) % 3], BYTES / 4, stream));
    CHECK(cuMemsetD8Async(own[index] + 100 * index, static_cast<unsigned char>(round), 1000, stream));
    CUdeviceptr scratch = 0;
    CHECK(cuMemAllocAsync(&scratch, BYTES / 2, stream));
    CHECK(cuMemcpyDtoDAsync(scratch, own[0], BYTES / 2, stream));
    CHECK(cuMemsetD32Async(scratch, 7, 1000, stream));
    CHECK(cuMemcpyDtoDAsync(own[1], scratch, BYTES / 2, stream));
    CHECK(cuMemFreeAsync(scratch, stream));
  }
  CHECK(cuMemcpyDtoHAsync(host.data(), own[1], BYTES / 2, stream));
  CHECK(cuStreamSynchronize(stream));
  for (const CUdeviceptr buffer : own) CHECK(cuMemFree(buffer));
  CHECK(cuStreamDestroy(stream));
  std::uint64_t digest = 0;
  for (const std::uint64_t word : host) digest = digest * 31 + word;
  return std::to_string(digest);
}

}  // namespace

int main() {
  begin();
  make_buffers();
  std::array<std::string, 6> digests;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < digests.size(); ++i) {
    threads.emplace_back([&digests, i] { digests[i] = work(static_cast<int>(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& digest : digests) std::printf("thread %s\n", digest.c_str());
  return finish();
}
