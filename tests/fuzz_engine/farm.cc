// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz_engine/farm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver/check.h"

namespace thermocline::fuzz_engine {
namespace {

// A program takes some hundredths of a second; under a sanitizer some tenths.
constexpr unsigned kHangSeconds = 90;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The report of one worker, shared with the parent.
struct Report {
  std::uint64_t seed = 0;  // of the current program
  Totals totals;
  char failure[600] = "";
};

class SharedReports {
 public:
  explicit SharedReports(std::size_t count) : count_(count) {
    void* const at = mmap(nullptr, count * sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    THERMOCLINE_CHECK(at != MAP_FAILED, "shared memory for reports");
    reports_ = static_cast<Report*>(at);
    for (std::size_t i = 0; i < count; ++i) new (&reports_[i]) Report;
  }
  ~SharedReports() { munmap(reports_, count_ * sizeof(Report)); }
  SharedReports(const SharedReports&) = delete;
  SharedReports& operator=(const SharedReports&) = delete;
  Report& operator[](std::size_t i) { return reports_[i]; }

 private:
  std::size_t count_;
  Report* reports_ = nullptr;
};

Report* own_report = nullptr;

void write_failure(Report& report, const std::string& what) {
  std::snprintf(report.failure, sizeof report.failure, "%s", what.c_str());
}

void report_check(const char* file, int line, const char* condition, const char* sentence) {
  write_failure(*own_report, std::string(file) + ":" + std::to_string(line) + ": " + sentence + " (" + condition + ")");
  _exit(3);
}

void add(Totals& totals, const Program& program, const Outcome& outcome) {
  ++totals.programs;
  totals.steps += program.steps.size();
  totals.done += static_cast<std::uint64_t>(std::count(outcome.done.begin(), outcome.done.end(), true));
  totals.refused += outcome.refused;
  totals.faults += outcome.faults;
  totals.evictions += outcome.statistics.evictions;
  totals.restores += outcome.statistics.restores;
  totals.plans += outcome.statistics.plans;
  totals.divergences += outcome.statistics.divergences;
}

void work(const FarmOptions& options, unsigned worker, Report& report) {
  own_report = &report;
  set_check_handler(&report_check);
  const double end = now() + options.minutes * 60;
  for (std::uint64_t i = worker; options.minutes > 0 ? now() < end : i < options.seeds; i += options.workers) {
    report.seed = options.first + i;
    alarm(kHangSeconds);
    const Program program = make_program(report.seed, options.steps, options.faults);
    const Outcome outcome = run(program);
    add(report.totals, program, outcome);
    if (!outcome.failure.empty()) {
      write_failure(report, outcome.failure);
      _exit(1);
    }
  }
  _exit(0);
}

std::string ending(const Report& report, int status) {
  if (report.failure[0] != '\0') return report.failure;
  if (WIFSIGNALED(status)) {
    return WTERMSIG(status) == SIGALRM ? "it hangs" : std::string("killed: ") + strsignal(WTERMSIG(status));
  }
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

void sum(Totals& to, const Totals& from) {
  to.programs += from.programs;
  to.steps += from.steps;
  to.done += from.done;
  to.refused += from.refused;
  to.faults += from.faults;
  to.evictions += from.evictions;
  to.restores += from.restores;
  to.plans += from.plans;
  to.divergences += from.divergences;
}

}  // namespace

std::optional<Failure> run_many(const FarmOptions& options, Totals* totals) {
  const double begin = now();
  SharedReports reports(options.workers);
  std::vector<pid_t> workers;
  std::fflush(nullptr);
  for (unsigned i = 0; i < options.workers; ++i) {
    const pid_t pid = fork();
    THERMOCLINE_CHECK(pid >= 0, "a process for programs");
    if (pid == 0) work(options, i, reports[i]);
    workers.push_back(pid);
  }
  std::optional<Failure> failure;
  for (std::size_t left = workers.size(); left > 0; --left) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, 0);
    const auto at = std::ranges::find(workers, ended);
    if (at == workers.end()) continue;
    const auto i = static_cast<std::size_t>(at - workers.begin());
    *at = 0;
    if (status == 0 || failure) continue;
    failure = Failure{reports[i].seed, ending(reports[i], status)};
    for (const pid_t other : workers) {
      if (other > 0) kill(other, SIGKILL);
    }
  }
  for (unsigned i = 0; i < options.workers; ++i) sum(*totals, reports[i].totals);
  totals->seconds = now() - begin;
  return failure;
}

std::optional<std::string> fails(const Program& program, const FaultPlan& faults) {
  SharedReports reports(1);
  std::fflush(nullptr);
  const pid_t pid = fork();
  THERMOCLINE_CHECK(pid >= 0, "a process for a program");
  if (pid == 0) {
    own_report = &reports[0];
    set_check_handler(&report_check);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDERR_FILENO);
    alarm(kHangSeconds);
    const Outcome outcome = run(program, faults);
    write_failure(reports[0], outcome.failure);
    _exit(outcome.failure.empty() ? 0 : 1);
  }
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return "it can not be waited for";
  if (status == 0) return std::nullopt;
  return ending(reports[0], status);
}

Program only(const Program& program, const std::vector<std::size_t>& kept) {
  Program smaller{program.setup, {}};
  for (const std::size_t i : kept) {
    if (i < program.steps.size()) smaller.steps.push_back(program.steps[i]);
  }
  return smaller;
}

std::vector<std::size_t> shrink(const Program& program, const FaultPlan& faults, double seconds) {
  const double end = now() + seconds;
  std::vector<std::size_t> kept(program.steps.size());
  for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = i;
  for (std::size_t chunk = kept.size() / 2; chunk > 0 && now() < end;) {
    bool smaller = false;
    // From the end: steps after the failure are removed first.
    for (std::size_t stop = kept.size(); stop > 0 && now() < end;) {
      const std::size_t start = stop > chunk ? stop - chunk : 0;
      std::vector<std::size_t> fewer(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(start));
      fewer.insert(fewer.end(), kept.begin() + static_cast<std::ptrdiff_t>(stop), kept.end());
      if (fails(only(program, fewer), faults)) {
        kept = std::move(fewer);
        smaller = true;
      }
      stop = start;
    }
    if (!smaller || chunk > kept.size() / 2) chunk /= 2;
  }
  return kept;
}

std::string write_list(const std::vector<std::size_t>& list) {
  std::string text;
  for (std::size_t i = 0; i < list.size();) {
    std::size_t j = i;
    while (j + 1 < list.size() && list[j + 1] == list[j] + 1) ++j;
    text += (text.empty() ? "" : ",") + std::to_string(list[i]) + (j > i ? "-" + std::to_string(list[j]) : "");
    i = j + 1;
  }
  return text;
}

std::optional<std::vector<std::size_t>> read_list(const std::string& text) {
  std::vector<std::size_t> list;
  for (const char* at = text.c_str(); *at != '\0';) {
    char* end = nullptr;
    const std::size_t first = std::strtoull(at, &end, 10);
    std::size_t last = first;
    if (end == at) return std::nullopt;
    if (*end == '-') {
      at = end + 1;
      last = std::strtoull(at, &end, 10);
      if (end == at) return std::nullopt;
    }
    for (std::size_t i = first; i <= last; ++i) list.push_back(i);
    if (*end != ',' && *end != '\0') return std::nullopt;
    at = *end == ',' ? end + 1 : end;
  }
  return list;
}

std::string explain(const Failure& failure, std::size_t steps, bool faults, double seconds_to_shrink) {
  const Program program = make_program(failure.seed, steps, faults);
  const FaultPlan plan{.seed = program.setup.seed, .one_in = program.setup.fault_one_in};
  const std::string command = "fuzz_engine --seed " + std::to_string(failure.seed) + " --steps " +
                              std::to_string(steps) + (faults ? " --faults" : "");
  std::string text = describe(program.setup) + "\n  " + failure.what + "\n  repeat: " + command + "\n";
  if (!fails(program, plan)) return text + "  by itself it does not fail again\n";
  const std::vector<std::size_t> kept = shrink(program, plan, seconds_to_shrink);
  const Program smallest = only(program, kept);
  text += "  the smallest program, " + std::to_string(kept.size()) + " steps (" +
          fails(smallest, plan).value_or("it does not always fail") + "):\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(kept.size(), 60); ++i)
    text += "    " + std::to_string(i) + " " + describe(smallest.steps[i]) + "\n";
  return text + "  repeat: " + command + " --keep " + write_list(kept) + "\n";
}

}  // namespace thermocline::fuzz_engine
