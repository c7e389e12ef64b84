// SPDX-License-Identifier: Apache-2.0
// The cost of pinned host memory through the pool, compared with the same calls made directly to the driver (plain).
// Over a driver that returns at once the time is the library's bookkeeping; the additional cost of a real driver
// follows from the bytes that it has to register: 30 ms for 100 MB (rapidsai/cudf PR 15665).
#include <bit>
#include <random>

#include <benchmark/benchmark.h>

#include "allocator/host_pool.h"
#include "bench/workloads.h"
#include "offload/residency/unit_size.h"

namespace thermocline::bench {
namespace {

// As in the engine.
constexpr Bytes kStep = 64 * kMiB;

class Pool {
 public:
  Pool() { THERMOCLINE_CHECK(HostPool::create(driver_, 0, kStep, &pool_).ok(), "The null driver refuses nothing."); }
  void* allocate(Bytes bytes) { return pool_->allocate(bytes); }
  void free(void* at) { pool_->free(at); }
  Bytes registered() const { return pool_->ever_taken_bytes(); }
  HostPool& pool() { return *pool_; }

 private:
  Driver driver_{null_table()};
  std::unique_ptr<HostPool> pool_;
};

class Plain {
 public:
  void* allocate(Bytes bytes) {
    void* at = nullptr;
    THERMOCLINE_CHECK(driver_.allocate_host(bytes, &at).ok(), "The null driver refuses nothing.");
    registered_ += bytes;
    return at;
  }
  void free(void* at) { THERMOCLINE_CHECK(driver_.free_host(at).ok(), "What was allocated is freed."); }
  Bytes registered() const { return registered_; }

 private:
  Driver driver_{null_table()};
  Bytes registered_ = 0;
};

// The driver's share of one turn of a loop.
template <class From>
class PerTurn {
 public:
  PerTurn(benchmark::State& state, const From& from)
      : state_(state), from_(from), calls_(null_driver_calls()), registered_(from.registered()) {}
  ~PerTurn() {
    set("driver_calls", static_cast<double>(null_driver_calls() - calls_));
    set("registered_mib", static_cast<double>(from_.registered() - registered_) / static_cast<double>(kMiB));
  }

 private:
  void set(const char* name, double value) {
    state_.counters[name] = benchmark::Counter(value, benchmark::Counter::kAvgIterations);
  }
  benchmark::State& state_;
  const From& from_;
  const std::uint64_t calls_;
  const Bytes registered_;
};

template <class From>
void host_pair(benchmark::State& state) {
  const auto bytes = static_cast<Bytes>(state.range(0));
  From from;
  from.free(from.allocate(bytes));
  const PerTurn<From> count(state, from);
  for (auto _ : state) from.free(from.allocate(bytes));
}
BENCHMARK(host_pair<Pool>)->Arg(4 << 10)->Arg(2 << 20)->Arg(5'000'000);
BENCHMARK(host_pair<Plain>)->Arg(2 << 20);

// Frees a random live piece, and allocates another one in its place.
template <class From>
void host_churn(benchmark::State& state) {
  const auto live = static_cast<std::size_t>(state.range(0));
  std::mt19937_64 random(1);
  const std::vector<Bytes> sizes = log_uniform_sizes(1 << 14, 2);
  std::vector<std::size_t> victims(sizes.size());
  for (std::size_t& victim : victims) victim = random() % live;
  From from;
  std::vector<void*> pieces(live);
  for (std::size_t i = 0; i < live; ++i) pieces[i] = from.allocate(sizes[i % sizes.size()]);
  std::size_t next = 0;
  const auto replace = [&] {
    void*& piece = pieces[victims[next]];
    from.free(piece);
    piece = from.allocate(sizes[next]);
    if (++next == sizes.size()) next = 0;
  };
  for (std::size_t i = 0; i < 4 * sizes.size(); ++i) replace();
  {
    const PerTurn<From> count(state, from);
    for (auto _ : state) replace();
  }
  for (void* piece : pieces) from.free(piece);
}
BENCHMARK(host_churn<Pool>)->Arg(1'000);
BENCHMARK(host_churn<Plain>)->Arg(1'000);

// Sizes as a training step evicts them, which vary from step to step by up to 40 %. Reports the fraction of the peak of
// registered memory that was requested, compared with what rounding up to powers of two would give; and the bytes that
// are still registered after a trim.
void host_used(benchmark::State& state) {
  Pool from;
  std::mt19937_64 random(4);
  const auto between = [&random](Bytes low, Bytes high) { return low + random() % (high - low + 1); };
  Bytes live = 0, peak = 0, rounded = 0, peak_rounded = 0;
  for (auto _ : state) {
    std::vector<Bytes> layers(96);
    for (Bytes& layer : layers) layer = between(8 * kMiB, 64 * kMiB);
    for (int step = 0; step < 60; ++step) {
      const double factor = 1.0 + 0.4 * static_cast<double>(random() % 1001) / 1000;
      std::vector<std::pair<void*, Bytes>> pieces;
      for (const Bytes layer : layers) {
        const auto bytes = static_cast<Bytes>(static_cast<double>(layer) * factor);
        // In the same units as the engine.
        const std::uint64_t units = units_of(bytes);
        for (std::uint64_t i = 0; i < units; ++i) pieces.emplace_back(from.allocate(bytes / units), bytes / units);
        live += bytes;
        rounded += units * std::bit_ceil(bytes / units);
      }
      peak = std::max(peak, live);
      peak_rounded = std::max(peak_rounded, rounded);
      for (; !pieces.empty(); pieces.pop_back()) from.free(pieces.back().first);
      live = rounded = 0;
    }
  }
  state.counters["used"] = static_cast<double>(peak) / static_cast<double>(from.pool().peak_taken_bytes());
  state.counters["used_by_powers_of_two"] = static_cast<double>(peak) / static_cast<double>(peak_rounded);
  from.pool().trim();
  state.counters["kept_mib"] = static_cast<double>(from.pool().taken_bytes()) / static_cast<double>(kMiB);
}
BENCHMARK(host_used)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace thermocline::bench

int main(int argc, char** argv) {
  const thermocline::bench::SecondThread second;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
