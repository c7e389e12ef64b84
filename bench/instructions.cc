// SPDX-License-Identifier: Apache-2.0
// Runs an operation of the engine, or a launch through the hooks, a given number of times, for valgrind to count its
// instructions (scripts/count_instructions.sh): these counts do not depend on how busy the machine is. Allocations are
// counted with compare_allocators.
//
// instructions operate|launch-BYTES[-slab|-roomy|-whole] TIMES
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include <cuda.h>

#include "bench/workloads.h"

namespace thermocline::bench {

// By this name the calls are counted, so it is not inlined.
template <class Work>
[[gnu::noinline]] void measured(Work& work) {
  work();
}

namespace {

constexpr StreamHandle kStream{0x100};
// More than half of the device: from then on the policy learns.
constexpr Bytes kLearnedFrom = kDeviceMemory / 2 + kMiB;
// More than half of the largest page.
constexpr Bytes kWholePages = 16 * kMiB;

template <class Work>
void repeat(unsigned long times, Work work) {
  // Until what it does has been learned, and threads that plan or wait for it have told this one what they found: its next
  // call takes that in, and may be a thousand times as long.
  for (int round = 0; round < 4; ++round) {
    for (unsigned long i = 0; i < 5'000; ++i) work();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  for (unsigned long i = 0; i < 500; ++i) work();
  for (unsigned long i = 0; i < times; ++i) measured(work);
}

void operate(unsigned long times) {
  const auto engine = make_engine();
  allocate(*engine, kLearnedFrom, kStream);
  const MemoryAccess accesses[] = {{allocate(*engine, 3 * kMiB, kStream)}, {allocate(*engine, 1024, kStream)}};
  unsigned long i = 0;
  repeat(times, [&] {
    Operation operation = engine->begin(kStream, accesses, {.kind = 1 + i++ % 7});
    THERMOCLINE_CHECK(operation.status().ok(), "Everything fits.");
    operation.commit();
  });
}

// The accesses of a launch: four buffers that share a slab, also if buffers are kept apart (HeapOptions::apart); the
// same, one of them small; four that have pages of their own.
enum class Buffers { kOfSlab, kOneSmall, kWhole };

// One kernel with one parameter of `bytes` bytes; four words are addresses. `roomy`: most of the device is free.
void launch(unsigned long times, std::size_t bytes, Buffers buffers, bool roomy) {
  CUdeviceptr most = 0;
  THERMOCLINE_CHECK(roomy || cuMemAlloc(&most, kLearnedFrom) == CUDA_SUCCESS,
                    "There is room in the benchmark's device.");
  std::mt19937_64 random(5);
  std::vector<unsigned char> parameter(bytes);
  for (unsigned char& byte : parameter) byte = static_cast<unsigned char>(random() % 256);
  for (std::size_t i = 0; i < 4; ++i) {
    CUdeviceptr buffer = 0;
    const Bytes size = buffers == Buffers::kWhole                ? kWholePages
                       : buffers == Buffers::kOneSmall && i == 0 ? kMiB
                                                                 : 3 * kMiB;
    THERMOCLINE_CHECK(cuMemAlloc(&buffer, size) == CUDA_SUCCESS, "There is room in the benchmark's device.");
    std::memcpy(&parameter[i * (bytes / 4)], &buffer, sizeof buffer);
  }
  void* parameters[] = {parameter.data()};
  auto* const function = reinterpret_cast<CUfunction>(bytes);
  repeat(times, [&] {
    const CUresult result = cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
    THERMOCLINE_CHECK(result == CUDA_SUCCESS, "The null driver refuses nothing.");
  });
}

}  // namespace
}  // namespace thermocline::bench

int main(int argc, char** argv) {
  const std::string shape = argc == 3 ? argv[1] : "";
  const unsigned long times = argc == 3 ? std::strtoul(argv[2], nullptr, 10) : 0;
  const thermocline::bench::SecondThread second;
  unsigned long bytes = 0;
  if (shape == "operate") {
    thermocline::bench::operate(times);
  } else if (std::sscanf(shape.c_str(), "launch-%lu", &bytes) == 1 && bytes >= 32) {
    using thermocline::bench::Buffers;
    const Buffers buffers = shape.ends_with("-whole")  ? Buffers::kWhole
                            : shape.ends_with("-slab") ? Buffers::kOneSmall
                                                       : Buffers::kOfSlab;
    thermocline::bench::launch(times, bytes, buffers, shape.ends_with("-roomy"));
  } else {
    std::fputs("usage: instructions operate|launch-BYTES[-slab|-roomy|-whole] TIMES\n", stderr);
    return 2;
  }
}
