// SPDX-License-Identifier: Apache-2.0
// The cost of an allocation and a free, in nanoseconds of bookkeeping, through the engine as programs reach it. The
// patterns are those with which other allocators were measured: one size repeatedly; replacing one of many live
// buffers; with free holes; several threads.
#include <unistd.h>
#include <atomic>
#include <cstdio>

#include <benchmark/benchmark.h>

#include "bench/workloads.h"

namespace thermocline::bench {
namespace {

constexpr StreamHandle kStream{0x100};

void count_driver_calls(benchmark::State& state, std::uint64_t before) {
  state.counters["driver_calls"] = static_cast<double>(null_driver_calls() - before);
}

void pair(benchmark::State& state) {
  const auto bytes = static_cast<Bytes>(state.range(0));
  const auto engine = make_engine();
  release(*engine, allocate(*engine, bytes, kStream), kStream);
  const std::uint64_t before = null_driver_calls();
  for (auto _ : state) release(*engine, allocate(*engine, bytes, kStream), kStream);
  count_driver_calls(state, before);
}
BENCHMARK(pair)->Arg(1 << 10)->Arg(3 << 20)->Arg(32 << 20)->Arg(1 << 30);

// No stream is named: cuMemAlloc and cuMemFree.
void pair_without_stream(benchmark::State& state) {
  const auto bytes = static_cast<Bytes>(state.range(0));
  const auto engine = make_engine();
  const auto once = [&] {
    DeviceAddress address;
    THERMOCLINE_CHECK(engine->allocate(bytes, std::nullopt, &address).ok(), "There is room.");
    THERMOCLINE_CHECK(engine->free(address, std::nullopt).ok(), "What was allocated is freed.");
  };
  once();
  const std::uint64_t before = null_driver_calls();
  for (auto _ : state) once();
  count_driver_calls(state, before);
}
BENCHMARK(pair_without_stream)->Arg(1 << 10)->Arg(32 << 20);

// Frees a random live buffer, and allocates another one in its place.
void churn(benchmark::State& state) {
  const auto live = static_cast<std::size_t>(state.range(0));
  const auto engine = make_engine();
  std::mt19937_64 random(1);
  const std::vector<Bytes> sizes = log_uniform_sizes(1 << 18, 2);
  std::vector<std::uint32_t> victims(sizes.size());
  for (std::uint32_t& victim : victims) victim = static_cast<std::uint32_t>(random() % live);
  std::vector<DeviceAddress> buffers(live);
  for (std::size_t i = 0; i < live; ++i) buffers[i] = allocate(*engine, sizes[i % sizes.size()], kStream);
  std::size_t next = 0;
  const auto replace = [&] {
    DeviceAddress& buffer = buffers[victims[next]];
    release(*engine, buffer, kStream);
    buffer = allocate(*engine, sizes[next], kStream);
    if (++next == sizes.size()) next = 0;
  };
  // Until the pages that it needs have been created.
  for (std::size_t i = 0; i < 4 * live; ++i) replace();
  const std::uint64_t before = null_driver_calls();
  for (auto _ : state) replace();
  state.counters["driver_calls_per_op"] =
      benchmark::Counter(static_cast<double>(null_driver_calls() - before), benchmark::Counter::kAvgIterations);
  for (const DeviceAddress buffer : buffers) release(*engine, buffer, kStream);
}
BENCHMARK(churn)->Arg(1'000)->Arg(20'000)->Arg(100'000);

// Holes of 1 KiB between live buffers of 1 KiB. With `size` 1 KiB every hole fits, with 4 KiB none.
void holes(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<Bytes>(state.range(1));
  const auto engine = make_engine();
  std::vector<DeviceAddress> buffers(2 * count);
  for (DeviceAddress& buffer : buffers) buffer = allocate(*engine, 1024, kStream);
  for (std::size_t i = 0; i < buffers.size(); i += 2) release(*engine, buffers[i], kStream);
  release(*engine, allocate(*engine, bytes, kStream), kStream);
  const std::uint64_t before = null_driver_calls();
  for (auto _ : state) release(*engine, allocate(*engine, bytes, kStream), kStream);
  count_driver_calls(state, before);
  for (std::size_t i = 1; i < buffers.size(); i += 2) release(*engine, buffers[i], kStream);
}
BENCHMARK(holes)->ArgsProduct({{4096, 16384, 65536}, {1024, 4096}});

// Holes of a different size for each pair, so that nothing that was just freed fits.
void holes_mixed(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const auto engine = make_engine();
  std::vector<DeviceAddress> buffers(2 * count);
  for (DeviceAddress& buffer : buffers) buffer = allocate(*engine, 1024, kStream);
  for (std::size_t i = 0; i < buffers.size(); i += 2) release(*engine, buffers[i], kStream);
  Bytes bytes = 0;
  for (auto _ : state) {
    bytes = (bytes + 512) % (256 * kKiB);
    release(*engine, allocate(*engine, 512 + bytes, kStream), kStream);
  }
  for (std::size_t i = 1; i < buffers.size(); i += 2) release(*engine, buffers[i], kStream);
}
BENCHMARK(holes_mixed)->Arg(4096)->Arg(65536);

std::unique_ptr<Engine> shared_engine;

// Two threads, each on a stream of its own.
void threads(benchmark::State& state) {
  const StreamHandle stream{0x100 + 16 * static_cast<std::uintptr_t>(state.thread_index())};
  for (auto _ : state) release(*shared_engine, allocate(*shared_engine, 1024, stream), stream);
}
BENCHMARK(threads)
    ->Threads(2)
    ->UseRealTime()
    ->Setup([](const benchmark::State&) { shared_engine = make_engine(); })
    ->Teardown([](const benchmark::State&) { shared_engine.reset(); });

// One thread allocates, the other one frees, with a ring buffer between them. The time that one buffer takes through
// both.
void handed_over(benchmark::State& state) {
  constexpr std::size_t kRing = 256;
  struct alignas(64) Position {
    std::atomic<std::uint64_t> value{0};
  };
  const auto engine = make_engine();
  std::vector<DeviceAddress> ring(kRing);
  Position written, read;
  std::atomic<bool> end{false};
  std::thread other([&] {
    for (std::uint64_t next = 0;;) {
      if (next == written.value.load(std::memory_order_acquire)) {
        if (end.load()) return;
        continue;
      }
      release(*engine, ring[next % kRing], kStream);
      read.value.store(++next, std::memory_order_release);
    }
  });
  std::uint64_t next = 0;
  for (auto _ : state) {
    while (next - read.value.load(std::memory_order_acquire) == kRing) {
    }
    ring[next % kRing] = allocate(*engine, 1024, kStream);
    written.value.store(++next, std::memory_order_release);
  }
  end = true;
  other.join();
}
BENCHMARK(handed_over)->UseRealTime();

// Resident memory of this process, in bytes.
double resident_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  unsigned long total = 0, resident = 0;
  const int read = file != nullptr ? std::fscanf(file, "%lu %lu", &total, &resident) : 0;
  if (file != nullptr) std::fclose(file);
  return read == 2 ? static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) : 0;
}

// How much the process grows by 20,000 live buffers, per GiB of device memory that they take.
void metadata(benchmark::State& state) {
  std::vector<DeviceAddress> buffers(20'000);
  const std::vector<Bytes> sizes = log_uniform_sizes(buffers.size(), 3);
  const double before = resident_bytes();
  const auto engine = make_engine();
  for (auto _ : state) {
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i] = allocate(*engine, sizes[i], kStream);
  }
  const double grown = resident_bytes() - before;
  const double gib = static_cast<double>(engine->statistics().device_bytes) / static_cast<double>(kGiB);
  state.counters["host_bytes"] = grown;
  state.counters["mib_per_gib"] = grown / static_cast<double>(kMiB) / gib;
  for (const DeviceAddress buffer : buffers) release(*engine, buffer, kStream);
}
BENCHMARK(metadata)->Iterations(1);

// The varying-batch trace: 200 weights of 1 to 16 MiB; 60 iterations of 96 layers whose sizes vary with the batch by up
// to 40 %; activations freed in reverse order; every fifth iteration allocates a small buffer that stays.
void varying_batch(benchmark::State& state) {
  const auto engine = make_engine();
  std::mt19937_64 random(4);
  const auto between = [&random](Bytes low, Bytes high) { return low + random() % (high - low + 1); };
  for (auto _ : state) {
    for (int i = 0; i < 200; ++i) allocate(*engine, between(kMiB, 16 * kMiB), kStream);
    std::vector<Bytes> layers(96);
    for (Bytes& layer : layers) layer = between(8 * kMiB, 64 * kMiB);
    for (int iteration = 0; iteration < 60; ++iteration) {
      const double factor = 1.0 + 0.4 * static_cast<double>(random() % 1001) / 1000;
      std::vector<DeviceAddress> activations;
      for (const Bytes layer : layers) {
        const auto bytes = static_cast<Bytes>(static_cast<double>(layer) * factor);
        activations.push_back(allocate(*engine, bytes, kStream));
        release(*engine, allocate(*engine, bytes / 4, kStream), kStream);
      }
      if (iteration % 5 == 0) allocate(*engine, between(512, 64 * kKiB), kStream);
      while (!activations.empty()) {
        release(*engine, activations.back(), kStream);
        activations.pop_back();
      }
    }
  }
  const EngineStatistics statistics = engine->statistics();
  state.counters["used"] =
      static_cast<double>(statistics.peak_live_bytes) / static_cast<double>(statistics.peak_device_bytes);
}
BENCHMARK(varying_batch)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace thermocline::bench

int main(int argc, char** argv) {
  const thermocline::bench::SecondThread second;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
