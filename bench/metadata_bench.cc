// SPDX-License-Identifier: Apache-2.0
// The host memory that live small buffers cost: what malloc has handed out for them, per GiB of them. No time is
// measured.
//
// metadata_bench: prints bench/results/metadata.json.
#include <malloc.h>

#include <cstdio>
#include <functional>
#include <random>
#include <vector>

#include "bench/workloads.h"

namespace thermocline::bench {
namespace {

constexpr StreamHandle kStream{0x100};

// Memory of the main thread, and of mappings of their own.
Bytes host_bytes() {
  const struct mallinfo2 now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

// Fills a GiB with buffers of the sizes that `next` gives; then as many are replaced, one by one, as `turns` times all.
void fill(const char* mix, std::size_t turns, const std::function<Bytes(std::mt19937_64&)>& next, const char* end) {
  constexpr Bytes kPageSizes[] = {16 * kMiB, 2 * kMiB};
  std::printf("    {\"mix\": \"%s\"", mix);
  for (const Bytes page_bytes : kPageSizes) {
    const auto engine = make_engine(page_bytes);
    std::mt19937_64 random(1);
    std::vector<DeviceAddress> buffers;
    buffers.reserve(3 * kMiB);
    release(*engine, allocate(*engine, kKiB, kStream), kStream);
    const Bytes before = host_bytes();
    while (engine->statistics().live_bytes < kGiB) {
      for (int i = 0; i < 64; ++i) buffers.push_back(allocate(*engine, next(random), kStream));
    }
    for (std::size_t i = 0; i < turns * buffers.size(); ++i) {
      DeviceAddress& one = buffers[random() % buffers.size()];
      release(*engine, one, kStream);
      one = allocate(*engine, next(random), kStream);
    }
    const auto taken = static_cast<double>(host_bytes() - before);
    const auto live = static_cast<double>(engine->statistics().live_bytes);
    if (page_bytes == kPageSizes[0])
      std::printf(", \"mean_kib\": %.1f", live / static_cast<double>(kKiB) / static_cast<double>(buffers.size()));
    std::printf(", \"mib_per_gib_%u_mib_pages\": %.2f", static_cast<unsigned>(page_bytes / kMiB), taken / live * 1024);
    for (const DeviceAddress buffer : buffers) release(*engine, buffer, kStream);
  }
  std::printf("}%s\n", end);
}

std::function<Bytes(std::mt19937_64&)> always(Bytes bytes) {
  return [bytes](std::mt19937_64&) { return bytes; };
}

}  // namespace
}  // namespace thermocline::bench

int main() {
  using namespace thermocline;
  using bench::always;
  std::puts("{\n  \"schema\": \"thermocline-bench-metadata/1\",");
  std::puts("  \"command\": \"build/release/bench/metadata_bench > bench/results/metadata.json\",\n  \"rows\": [");
  bench::fill("512 B", 0, always(512), ",");
  bench::fill("4 KiB", 0, always(4 * kKiB), ",");
  bench::fill("64 KiB", 0, always(64 * kKiB), ",");
  bench::fill("1 MiB", 0, always(kMiB), ",");
  // As layers have them: a matrix and a vector.
  bench::fill(
      "256 KiB and 1 KiB in turn", 0, [n = 0](std::mt19937_64&) mutable { return ++n % 2 != 0 ? 256 * kKiB : kKiB; },
      ",");
  // A random doubling, and a random place in it.
  bench::fill(
      "512 B to 1 MiB, replaced at random", 2,
      [](std::mt19937_64& random) {
        const Bytes base = Bytes{512} << random() % 11;
        return base + random() % base;
      },
      "");
  std::puts("  ]\n}");
}
