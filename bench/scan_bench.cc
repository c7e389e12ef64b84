// SPDX-License-Identifier: Apache-2.0
// The cost of searching an upload for addresses (hooks/pointers/word_scan.h): bytes without any, from cache and from
// memory.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "hooks/pointers/word_scan.h"

namespace thermocline {
namespace {

void scan(benchmark::State& state) {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(state.range(0)));
  std::minstd_rand random;
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random() >> 16);
  const WordScan words(OwnRange{.begin = std::uint64_t{0x7f00} << 32, .bytes = Bytes{1} << 40});
  std::uint64_t found = 0;
  for (auto _ : state) words(bytes.data(), bytes.size(), 0, [&found](Bytes, std::uint64_t) { ++found; });
  benchmark::DoNotOptimize(found);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes.size()));
}
BENCHMARK(scan)->ArgName("bytes")->Arg(16 << 10)->Arg(256 << 20);

}  // namespace
}  // namespace thermocline

BENCHMARK_MAIN();
