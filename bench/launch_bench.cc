// SPDX-License-Identifier: Apache-2.0
// The cost of a launch through the hooks, in addition to the driver's own time: linked in the same order as with
// LD_PRELOAD, the library before the driver. 20,000 live buffers; the parameter is one structure in which every 64th
// byte begins an address of the library's memory, so that it has to be scanned at every byte offset.
#include <cstring>
#include <random>

#include <benchmark/benchmark.h>
#include <cuda.h>

#include "bench/workloads.h"

namespace thermocline::bench {
namespace {

std::vector<CUdeviceptr> live_buffers() {
  std::vector<CUdeviceptr> buffers;
  for (const Bytes bytes : log_uniform_sizes(20'000, 3)) {
    CUdeviceptr buffer = 0;
    THERMOCLINE_CHECK(cuMemAlloc(&buffer, bytes) == CUDA_SUCCESS, "There is room in the benchmark's device.");
    buffers.push_back(buffer);
  }
  return buffers;
}

const std::vector<CUdeviceptr>& buffers() {
  static const std::vector<CUdeviceptr> all = live_buffers();
  return all;
}

// `addresses`: how many words of the parameter are addresses of the library's memory.
void launch(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const auto addresses = static_cast<std::size_t>(state.range(1));
  std::mt19937_64 random(5);
  std::vector<unsigned char> parameter(bytes);
  for (unsigned char& byte : parameter) byte = static_cast<unsigned char>(random() % 256);
  for (std::size_t i = 0; i < addresses; ++i) {
    const CUdeviceptr word = buffers()[random() % buffers().size()];
    std::memcpy(&parameter[i * (bytes / addresses)], &word, sizeof word);
  }
  void* parameters[] = {parameter.data()};
  auto* const function = reinterpret_cast<CUfunction>(bytes);
  for (auto _ : state) {
    const CUresult result = cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
    THERMOCLINE_CHECK(result == CUDA_SUCCESS, "The null driver refuses nothing.");
  }
}
BENCHMARK(launch)->Args({256, 4})->Args({4096, 4})->Args({32764, 4})->Args({4096, 64});

}  // namespace
}  // namespace thermocline::bench

int main(int argc, char** argv) {
  const thermocline::bench::SecondThread second;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
