// SPDX-License-Identifier: Apache-2.0
// Runs random programs of the engine from the command line: a range of seeds, one seed again, or seeds without end.
//
// Usage: engine fuzzer [--first N] [--seeds N] [--steps N] [--faults] [--workers N] [--minutes N] [--shrink SECONDS]
//        engine fuzzer --seed N [--steps N] [--faults] [--keep LIST] [--nth CALL] [--show]
// Exit status 0: all programs passed; 1: one failed, with its seed and the smallest program; 2: wrong usage.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/fuzz_engine/farm.h"

namespace {

using namespace thermocline::fuzz_engine;

struct Options {
  FarmOptions farm;
  std::optional<std::uint64_t> seed;
  std::string keep;
  std::uint64_t nth = 0;
  double shrink_seconds = 60;
  bool show = false;
};

bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--faults" || flag == "--show") {
      (flag == "--show" ? options->show : options->farm.faults) = true;
      continue;
    }
    if (++i == argc) return false;
    const char* const value = argv[i];
    const std::uint64_t number = std::strtoull(value, nullptr, 10);
    if (flag == "--first")
      options->farm.first = number;
    else if (flag == "--seeds")
      options->farm.seeds = number;
    else if (flag == "--steps")
      options->farm.steps = number;
    else if (flag == "--workers")
      options->farm.workers = static_cast<unsigned>(number);
    else if (flag == "--minutes")
      options->farm.minutes = std::strtod(value, nullptr);
    else if (flag == "--shrink")
      options->shrink_seconds = std::strtod(value, nullptr);
    else if (flag == "--seed")
      options->seed = number;
    else if (flag == "--keep")
      options->keep = value;
    else if (flag == "--nth")
      options->nth = number;
    else
      return false;
  }
  return options->farm.workers > 0 && options->farm.steps > 0;
}

int run_one(const Options& options) {
  Program program = make_program(*options.seed, options.farm.steps, options.farm.faults);
  if (!options.keep.empty()) {
    const auto kept = read_list(options.keep);
    if (!kept) return 2;
    program = only(program, *kept);
  }
  std::fprintf(stderr, "fuzz_engine: %s\n", describe(program.setup).c_str());
  if (options.show) {
    for (const Step& step : program.steps) std::fprintf(stderr, "  %s\n", describe(step).c_str());
  }
  const FaultPlan plan{.seed = program.setup.seed, .one_in = program.setup.fault_one_in, .only_nth = options.nth};
  const Outcome outcome = run(program, plan);
  if (outcome.faults != 0) {
    std::fprintf(stderr, "fuzz_engine: %llu calls failed, the last was %s\n",
                 static_cast<unsigned long long>(outcome.faults), outcome.failed_call.c_str());
  }
  if (outcome.failure.empty()) return 0;
  std::fprintf(stderr, "fuzz_engine: %s\n", outcome.failure.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) {
    std::fprintf(
        stderr,
        "usage: fuzz_engine [--first N] [--seeds N] [--steps N] [--faults] [--workers N] [--minutes N] "
        "[--shrink SECONDS]\n       fuzz_engine --seed N [--steps N] [--faults] [--keep LIST] [--nth CALL] [--show]\n");
    return 2;
  }
  if (options.seed) return run_one(options);
  Totals t;
  const auto failure = run_many(options.farm, &t);
  const auto n = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "programs=%llu steps=%llu done=%llu refused=%llu faults=%llu evictions=%llu restores=%llu plans=%llu "
      "divergences=%llu seconds=%.1f steps_per_second=%.0f\n",
      n(t.programs), n(t.steps), n(t.done), n(t.refused), n(t.faults), n(t.evictions), n(t.restores), n(t.plans),
      n(t.divergences), t.seconds, static_cast<double>(t.steps) / t.seconds);
  std::fflush(stdout);
  if (!failure) return 0;
  std::fprintf(stderr, "fuzz_engine: seed %llu: %s\n", n(failure->seed), failure->what.c_str());
  if (options.shrink_seconds > 0) {
    std::fprintf(stderr, "fuzz_engine: %s",
                 explain(*failure, options.farm.steps, options.farm.faults, options.shrink_seconds).c_str());
  }
  return 1;
}
