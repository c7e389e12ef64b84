// SPDX-License-Identifier: Apache-2.0
// Runs random programs (random_program.cc) under one setup after the other, until the given time has passed on the
// simulated devices; each in a process of its own. Prints one line for each, and a summary.
//
// Usage: fuzz_cuda [--simulated N[s|m|h]] [--seed FIRST] [--seeds N] [--each N[s|m|h]] [--jobs N]
//                  [--driver SWITCHES] [--operations N] [--budget SIZE]
// `--simulated 0 --seed S` runs only S; `--seeds N` runs N seeds, however long they take. `--driver` replaces the
// switches of the simulated driver that the seeds draw (docs/faults.md), `--operations` and `--budget` those of the
// programs. Exit status 0: no race, no wrong byte, no
// refused call; 1: the lines name the seeds that had one. With `--driver` or `--budget`, and under some of the
// switches that the seeds draw, a program may end with a clear refusal.
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/fuzz_cuda/setups.h"
#include "tests/support/subprocess.h"

namespace {

using thermocline::test::ProcessResult;

struct Options {
  std::uint64_t simulated_ms = 60'000, each_ms = 300'000, seed = 1, seeds = 0, jobs = 1, operations = 0;
  std::optional<std::string> driver, budget;
};

std::optional<std::uint64_t> duration_ms(std::string_view text) {
  char* end = nullptr;
  const std::string copy(text);
  const std::uint64_t number = std::strtoull(copy.c_str(), &end, 10);
  const std::string_view unit = end;
  if (end == copy.c_str()) return std::nullopt;
  if (unit.empty() || unit == "s") return number * 1'000;
  if (unit == "m") return number * 60'000;
  if (unit == "h") return number * 3'600'000;
  return std::nullopt;
}

bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--driver" || flag == "--budget") {
      (flag == "--driver" ? options->driver : options->budget) = argv[i + 1];
      continue;
    }
    const std::optional<std::uint64_t> ms = duration_ms(argv[i + 1]);
    if (!ms) return false;
    if (flag == "--simulated") {
      options->simulated_ms = *ms;
    } else if (flag == "--each") {
      options->each_ms = *ms;
    } else if (flag == "--seed") {
      options->seed = *ms / 1'000;
    } else if (flag == "--seeds") {
      options->seeds = *ms / 1'000;
    } else if (flag == "--operations") {
      options->operations = *ms / 1'000;
    } else if (flag == "--jobs") {
      options->jobs = *ms / 1'000;
    } else {
      return false;
    }
  }
  return argc % 2 == 1 && options->jobs > 0 && options->each_ms > 0;
}

// The number after `name=`, which must follow a space or begin a line; 0 if there is none.
double figure(const std::string& text, const std::string& name) {
  for (std::size_t at = text.find(name + "="); at != std::string::npos; at = text.find(name + "=", at + 1)) {
    if (at == 0 || text[at - 1] == ' ' || text[at - 1] == '\n') {
      return std::strtod(text.c_str() + at + name.size() + 1, nullptr);
    }
  }
  return 0;
}

// The figures that are added up, by name in the output.
constexpr const char* kFigures[] = {"time_ms",
                                    "kernels",
                                    "races",
                                    "operations",
                                    "evictions",
                                    "restores",
                                    "evicted_bytes",
                                    "restored_bytes",
                                    "plans",
                                    "divergences",
                                    "prefetches",
                                    "write_behinds",
                                    "fallback_evictions",
                                    "unchanged_units",
                                    "changed_units",
                                    "upload_copies",
                                    "followed",
                                    "captured_operations",
                                    "cut_graphs",
                                    "graph_segments"};

class FuzzRun {
 public:
  explicit FuzzRun(const Options& options) : options_(options), next_(options.seed) {}

  bool run() {
    std::vector<std::thread> workers;
    for (std::uint64_t i = 0; i < options_.jobs; ++i) {
      workers.emplace_back([this] {
        while (true) {
          std::uint64_t seed = 0;
          {
            const std::lock_guard lock(mutex_);
            if (is_enough()) return;
            seed = next_++;
          }
          run_one(seed);
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
    print_summary();
    return failed_ == 0;
  }

 private:
  bool is_enough() {
    if (options_.seeds != 0) return next_ >= options_.seed + options_.seeds;
    return next_ != options_.seed && totals_["time_ms"] >= static_cast<double>(options_.simulated_ms);
  }

  void run_one(std::uint64_t seed) {
    model::Setup setup = model::setup_of(seed);
    if (options_.driver) setup.use_driver(*options_.driver);
    setup.simulated_ms = options_.each_ms;
    if (options_.budget) setup.budget = *options_.budget;
    if (options_.operations != 0) setup.operations = options_.operations;
    const ProcessResult result = thermocline::test::run_process(
        setup.arguments(here_ / "random_program"),
        setup.environment(here_ / "../../lib/libthermocline.so.1", here_ / "../../lib/thermocline/simulator"));
    const bool silent = result.err.find("simulated device: races=0\n") != std::string::npos;
    const bool may_refuse = options_.driver || options_.budget || setup.may_refuse;
    const bool is_refusal = may_refuse && model::is_clear_refusal(result.status, result.err);
    const bool good = (result.status == 0 && silent) || is_refusal;
    const std::lock_guard lock(mutex_);
    for (const char* name : kFigures) totals_[name] += figure(result.err, name);
    add_api_paths(result.out);
    failed_ += good ? 0 : 1;
    refused_ += is_refusal ? 1 : 0;
    std::printf("seed %llu %s: %.0f s simulated, %.0f kernels, %.0f evictions, %.0f restores (%s)\n",
                static_cast<unsigned long long>(seed),
                !good        ? "FAILS"
                : is_refusal ? "is refused"
                             : "agrees",
                figure(result.err, "time_ms") / 1000, figure(result.err, "kernels"), figure(result.err, "evictions"),
                figure(result.err, "restores"), setup.name().c_str());
    if (!good) {
      std::string more = options_.driver ? " --driver " + *options_.driver : "";
      if (options_.budget) more += " --budget " + *options_.budget;
      if (options_.operations != 0) more += " --operations " + std::to_string(options_.operations);
      std::printf("  status %d; repeat: fuzz_cuda --simulated 0 --seed %llu --each %llus%s\n%s\n", result.status,
                  static_cast<unsigned long long>(seed), static_cast<unsigned long long>(options_.each_ms / 1000),
                  more.c_str(), result.err.c_str());
    }
    std::fflush(stdout);
  }

  void add_api_paths(const std::string& out) {
    programs_ += std::strtoull(out.c_str() + (out.starts_with("programs ") ? 9 : 0), nullptr, 10);
    const std::size_t begin = out.find("api_paths: ");
    if (begin == std::string::npos) return;
    for (std::size_t at = begin + 7; at < out.size() && out[at] != '\n';) {
      const std::size_t equals = out.find('=', at), end = std::min(out.find_first_of(" \n", at), out.size());
      if (equals >= end) break;
      api_paths_[out.substr(at, equals - at)] += std::strtoull(out.c_str() + equals + 1, nullptr, 10);
      at = end + 1;
    }
  }

  void print_summary() {
    rusage used{};
    getrusage(RUSAGE_CHILDREN, &used);
    std::printf("processes %llu programs %llu failed %llu refused %llu simulated_hours %.3f cpu_minutes %.1f\n",
                static_cast<unsigned long long>(next_ - options_.seed), static_cast<unsigned long long>(programs_),
                static_cast<unsigned long long>(failed_), static_cast<unsigned long long>(refused_),
                totals_["time_ms"] / 3.6e6, static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) / 60);
    for (const char* name : kFigures) std::printf("%s %.0f\n", name, totals_[name]);
    std::printf("api_paths:");
    std::uint64_t never = 0;
    for (const auto& [name, count] : api_paths_) {
      std::printf(" %s=%llu", name.c_str(), static_cast<unsigned long long>(count));
      never += count == 0 ? 1 : 0;
    }
    std::printf("\nroads %zu never_taken %llu\n", api_paths_.size(), static_cast<unsigned long long>(never));
  }

  const Options options_;
  const std::filesystem::path here_ = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::mutex mutex_;
  std::uint64_t next_, programs_ = 0, failed_ = 0, refused_ = 0;
  std::map<std::string, double, std::less<>> totals_;
  std::map<std::string, std::uint64_t> api_paths_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) {
    std::fprintf(stderr,
                 "usage: fuzz_cuda [--simulated N[s|m|h]] [--seed FIRST] [--seeds N] [--each N[s|m|h]] [--jobs N]\n"
                 "                 [--driver SWITCHES] [--operations N] [--budget SIZE]\n");
    return 2;
  }
  return FuzzRun(options).run() ? 0 : 1;
}
