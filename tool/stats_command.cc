// SPDX-License-Identifier: Apache-2.0
// thermocline stats: shows the memory use of processes that run under the library, once or repeatedly. It sends
// requests to them (telemetry/live_page.h); a process that gets none does no work for it.
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <map>
#include <memory>

#include "offload/sharing/lease_ledger.h"
#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/message.h"
#include "tool/number_option.h"
#include "tool/stats_text.h"

namespace thermocline {
namespace {

// A process whose engine is locked while the host waits for its device answers late.
constexpr std::chrono::milliseconds kTimeLimit{500};

constexpr const char* kToTheTop = "\033[H";
constexpr const char* kClearLine = "\033[K";
constexpr const char* kClearBelow = "\033[J";
constexpr const char* kHideCursor = "\033[?25l\033[2J";
constexpr const char* kShowCursor = "\033[?25h";

constexpr DecimalRange kIntervals{"0.05", "86400"};  // seconds

struct StatsFlags {
  std::vector<int> pids;
  bool watch = false, json = false, prometheus = false;
  double interval = 1;
};

volatile sig_atomic_t ended = 0;
void on_end(int) { ended = 1; }

void let_signals_end() {
  struct sigaction action {};
  action.sa_handler = &on_end;  // without SA_RESTART, so that the pause ends too
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

std::chrono::nanoseconds now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void say_why(int pid, LiveRead found) {
  const std::string process = "process " + std::to_string(pid);
  if (found == LiveRead::kRefused) {
    say(process + " is another user's");
  } else if (found == LiveRead::kUnknown) {
    say(process + " runs with another version of the library");
  } else if (kill(pid, 0) != 0 && errno == ESRCH) {
    say("there is no " + process);
  } else {
    say(process + " shows no statistics: it does not run under the library, or has not allocated device memory yet");
  }
}

// Asks all processes; keeps their answers for the next time.
class Processes {
 public:
  // `say_absent`: print a message about named processes that do not answer.
  std::vector<ProcessView> ask(const std::vector<int>& named, bool say_absent) {
    std::vector<ProcessView> views;
    std::map<int, LiveStatistics> latest;
    for (const int pid : named.empty() ? live_processes(kLivePageFolder) : named) {
      ProcessView view;
      const LiveRead found = read_live_page(kLivePageFolder, pid, kTimeLimit, &view.now);
      if (found != LiveRead::kAnswered && found != LiveRead::kSilent) {
        if (say_absent && !named.empty()) say_why(pid, found);
        continue;
      }
      view.answered = found == LiveRead::kAnswered;
      if (!view.answered && view.now.written.count() > 0) view.age = now() - view.now.written;
      if (view.now.written.count() == 0) view.now.values.clear();
      if (const auto earlier = before_.find(pid); earlier != before_.end()) view.before = &earlier->second;
      latest.emplace(pid, view.now);
      views.push_back(std::move(view));
    }
    latest_ = std::move(latest);
    return views;
  }
  // The next views are compared with the latest ones, which must not be used any more.
  void advance() { before_ = std::move(latest_); }

 private:
  std::map<int, LiveStatistics> before_, latest_;
};

std::string text_of(const StatsFlags& flags, const std::vector<ProcessView>& views) {
  if (flags.prometheus) return as_prometheus(views);
  const std::vector<SharedDevice> devices = shared_devices(kLeaseLedgerFolder);
  const auto now_ns = static_cast<std::uint64_t>(now().count());
  if (flags.json) return as_json(views, devices, now_ns);
  std::string text;
  if (views.size() > 1 && flags.pids.empty()) {
    text = overview(views);
  } else {
    for (const ProcessView& view : views) text += (text.empty() ? "" : "\n") + detailed(view);
  }
  return text + shares(devices, now_ns);
}

// Overwrites the screen in place, so that it is never empty in between.
void show_on_terminal(const std::string& text) {
  std::string screen = kToTheTop;
  for (const char c : text) {
    if (c == '\n') screen += kClearLine;
    screen += c;
  }
  std::fputs((screen + kClearBelow).c_str(), stdout);
}

void pause_for(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const timespec time{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  nanosleep(&time, nullptr);
}

int watch(const StatsFlags& flags) {
  const bool in_place = isatty(STDOUT_FILENO) == 1 && !flags.json && !flags.prometheus;
  let_signals_end();
  Processes processes;
  int status = kFailed;
  for (bool first = true; ended == 0; first = false) {
    const std::vector<ProcessView> views = processes.ask(flags.pids, first);
    if (views.empty()) break;
    status = kDone;
    if (in_place && first) std::fputs(kHideCursor, stdout);
    if (in_place) {
      show_on_terminal(text_of(flags, views));
    } else {
      if (!first && !flags.json) std::fputc('\n', stdout);
      std::fputs(text_of(flags, views).c_str(), stdout);
    }
    if (std::fflush(stdout) != 0) break;
    processes.advance();
    pause_for(flags.interval);
  }
  if (in_place && status == kDone) std::fputs(kShowCursor, stdout);
  if (ended == 0 && status == kDone) say("no process is left");
  if (status == kFailed && ended == 0 && flags.pids.empty()) say("no process of yours runs under the library");
  return ended != 0 ? kDone : status;
}

int show(const StatsFlags& flags) {
  Processes processes;
  const std::vector<ProcessView> views = processes.ask(flags.pids, true);
  if (!views.empty() || flags.json) std::fputs(text_of(flags, views).c_str(), stdout);
  if (views.empty() && flags.pids.empty()) say("no process of yours runs under the library");
  return views.empty() || views.size() < flags.pids.size() ? kFailed : kDone;
}

int stats(const StatsFlags& flags) {
  if (flags.json && flags.prometheus) {
    say("--json and --prometheus are two answers; ask for one");
    return kWrongUsage;
  }
  return flags.watch ? watch(flags) : show(flags);
}

}  // namespace

void add_stats(CLI::App& app, CommandLine* line) {
  auto flags = std::make_shared<StatsFlags>();
  CLI::App* command = app.add_subcommand("stats", "What processes that run under the library hold, now");
  add_number(command, "PID", flags->pids, kProcessNumbers, "processes (default: all of yours)");
  command->add_flag("--watch", flags->watch, "again and again, until Ctrl-C");
  add_number(command, "--interval", flags->interval, kIntervals, "seconds between two looks (default: 1)");
  command->add_flag("--json", flags->json,
                    "one JSON object on stdout, with PyTorch's and TensorFlow's names beside ours");
  command->add_flag("--prometheus", flags->prometheus, "as Prometheus reads it");
  command->callback([=] { line->action = [flags] { return stats(*flags); }; });
}

}  // namespace thermocline
