// SPDX-License-Identifier: Apache-2.0
// The engine's own host time for one operator of a learned, steady step under a budget: bookkeeping, period detection,
// following the plan, choosing pages; without the driver's calls, whose cost on the simulated device is not the
// driver's. Allocations and frees between operators are not included (allocator_bench).
//
// step_bench SIMULATED_LIBCUDA BUDGET_PERCENT TRACE...
//
// Prints a JSON line for each trace: nanoseconds of wall-clock time. The cost of reading the clock is subtracted; the
// time of other programs on the machine is not, so the median is the most reliable figure.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "driver/table.h"
#include "trace/read.h"
#include "trace/repeat.h"
#include "trace/replay.h"

namespace thermocline::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSteps = 12;
constexpr std::size_t kLearned = 4;  // number of steps before the first one that is counted

// The cost of reading the clock.
Clock::duration clock_cost() {
  static const Clock::duration cost = [] {
    std::vector<Clock::duration> costs(10'001);
    for (Clock::duration& one : costs) {
      const Clock::time_point began = Clock::now();
      one = Clock::now() - began;
    }
    std::ranges::nth_element(costs, costs.begin() + 5'000);
    return costs[5'000];
  }();
  return cost;
}

// The driver's and the clock's share of the engine's present call. One replay at a time.
Clock::duration in_driver{};
const DriverTable* below = nullptr;

template <auto Entry, class Function>
struct Timed;
template <auto Entry, class... Arguments>
struct Timed<Entry, CUresult (*)(Arguments...)> {
  static CUresult call(Arguments... arguments) {
    const Clock::time_point began = Clock::now();
    const CUresult result = (below->*Entry)(arguments...);
    in_driver += Clock::now() - began + clock_cost();
    return result;
  }
};

class Stopwatch final : public EngineStopwatch {
 public:
  const Driver& driver(const Driver& device) override {
    below = &device.table();
#define THERMOCLINE_TIMED(function, required) \
  if (below->function != nullptr) timed_.function = Timed<&DriverTable::function, decltype(&::function)>::call;
    THERMOCLINE_DRIVER_FUNCTIONS(THERMOCLINE_TIMED)
#undef THERMOCLINE_TIMED
    return driver_;
  }
  void engine_entered() override {
    static_cast<void>(clock_cost());
    in_driver = {};
    entered_ = Clock::now();
  }
  void engine_left() override { operator_ += Clock::now() - entered_ - in_driver - clock_cost(); }
  void operator_submitted(std::size_t step) override {
    if (step >= kLearned) spans_.push_back(operator_);
    operator_ = {};
  }

  // `quantile`: from 0 to 1, over all operators.
  double nanoseconds(double quantile) {
    if (spans_.empty()) return 0;
    const auto at = static_cast<std::size_t>(quantile * static_cast<double>(spans_.size() - 1));
    std::nth_element(spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(at), spans_.end());
    return std::max(0.0, std::chrono::duration<double, std::nano>(spans_[at]).count());
  }
  std::size_t operators() const { return spans_.size(); }

 private:
  DriverTable timed_;
  Driver driver_{timed_};
  Clock::time_point entered_;
  Clock::duration operator_{};
  std::vector<Clock::duration> spans_;
};

bool measure(const char* library, unsigned percent, const char* path) {
  std::string reason;
  Trace trace;
  StepProgram program;
  TraceError error;
  if (!read_trace(path, &trace, &error) || !plan_steps(trace, kSteps, &program, &reason)) {
    std::fprintf(stderr, "step_bench: %s: no trace that can be replayed\n", path);
    return false;
  }
  Stopwatch stopwatch;
  ReplayOptions options;
  options.device.library = library;
  options.engine.policy = kLearnedPolicy;
  options.engine.budget_bytes = trace.peak_live_bytes / 100 * percent;
  options.stopwatch = &stopwatch;
  ReplayResult result;
  if (!replay(trace, program, options, &result, &reason)) {
    std::fprintf(stderr, "step_bench: %s: %s\n", path, reason.c_str());
    return false;
  }
  std::printf("{\"trace\": \"%s\", \"budget_percent\": %u, \"ok\": %s, \"operators\": %zu, ", path, percent,
              result.outcome == ReplayOutcome::kOk ? "true" : "false", stopwatch.operators());
  std::printf("\"median_ns\": %.0f, \"p90_ns\": %.0f, \"p99_ns\": %.0f}\n", stopwatch.nanoseconds(0.5),
              stopwatch.nanoseconds(0.9), stopwatch.nanoseconds(0.99));
  return true;
}

}  // namespace
}  // namespace thermocline::bench

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fputs("usage: step_bench SIMULATED_LIBCUDA BUDGET_PERCENT TRACE...\n", stderr);
    return 2;
  }
  const auto percent = static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10));
  for (int i = 3; i < argc; ++i) {
    if (!thermocline::bench::measure(argv[1], percent, argv[i])) return 1;
  }
  return 0;
}
