// SPDX-License-Identifier: Apache-2.0
// The cost of searching an upload for addresses (hooks/pointers/word_scan.h): bytes without any, from cache, from
// memory, and from memory on several threads.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "hooks/pointers/parallel_search.h"
#include "hooks/pointers/word_scan.h"

namespace thermocline {
namespace {

constexpr OwnRange kOwn{.begin = std::uint64_t{0x7f00} << 32, .bytes = Bytes{1} << 40};

std::vector<unsigned char> random_bytes(std::int64_t count) {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(count));
  std::minstd_rand random;
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random() >> 16);
  return bytes;
}

void scan(benchmark::State& state) {
  const std::vector<unsigned char> bytes = random_bytes(state.range(0));
  const WordScan words(kOwn);
  std::uint64_t found = 0;
  for (auto _ : state) words(bytes.data(), bytes.size(), 0, [&found](Bytes, std::uint64_t) { ++found; });
  benchmark::DoNotOptimize(found);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes.size()));
}
BENCHMARK(scan)->ArgName("bytes")->Arg(16 << 10)->Arg(256 << 20);

void search(benchmark::State& state) {
  const std::vector<unsigned char> bytes = random_bytes(state.range(0));
  const WordScan words(kOwn);
  std::uint64_t found = 0;
  for (auto _ : state) {
    search_upload(words, {.from = bytes.data(), .bytes = bytes.size(), .to = 0}, static_cast<Bytes>(state.range(1)),
                  [&found](DeviceAddress, std::uint64_t) { ++found; });
  }
  benchmark::DoNotOptimize(found);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes.size()));
}
BENCHMARK(search)->ArgNames({"bytes", "threads"})->ArgsProduct({{8 << 20, 256 << 20}, {1, 2, 4, 8}})->UseRealTime();

}  // namespace
}  // namespace thermocline

BENCHMARK_MAIN();
