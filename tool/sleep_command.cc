// SPDX-License-Identifier: Apache-2.0
// thermocline sleep and thermocline wake: tell running processes to give their device memory back, and to take it again
// (telemetry/live_order.h, docs/sleep.md).
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>

#include "config/size.h"
#include "telemetry/live_order.h"
#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/json_text.h"
#include "tool/message.h"
#include "tool/number_option.h"

namespace thermocline {
namespace {

using nlohmann::ordered_json;

constexpr std::chrono::milliseconds kBeginWithin{2000};
constexpr std::size_t kMostOfProgram = 40;  // characters
// CUresults that an order may end with.
constexpr int kNotActive = 3, kEnds = 4, kNotFound = 500, kNotReady = 600, kNotSupported = 801;

constexpr DecimalRange kTimeouts{"0.000001", "86400"};  // seconds

struct SleepFlags {
  OrderKind kind = OrderKind::kNone;
  std::vector<int> pids;
  std::string tag;
  bool all = false, json = false;
  double timeout = 120;
};

struct Served {
  int pid = 0;
  OrderAnswer answer;
  std::string problem;  // "": the order was carried out
  bool is_whole = false;
};

std::string problem_of_status(int status, bool has_tag) {
  switch (status) {
    case kNotActive:
      return "holds no device memory";
    case kNotFound:
      return "has never used that tag";
    case kNotReady:
      return "records a graph; try again";
    case kNotSupported:
      return std::string(has_tag ? "evicts nothing, or (host_fallback full) everything together"
                                 : "never evicts: its policy is none, its device has no virtual memory management, or "
                                   "the library does not see all it does");
    case kEnds:
      return "is ending";
    default:
      return "could not: CUDA error " + std::to_string(status);
  }
}

std::string problem_of(int pid, OrderOutcome outcome, const OrderAnswer& answer, bool has_tag) {
  switch (outcome) {
    case OrderOutcome::kEnded:
      return answer.status == 0 ? "" : problem_of_status(answer.status, has_tag);
    case OrderOutcome::kUnfinished:
      return "has begun, and is not done in time; it goes on";
    case OrderOutcome::kSilent:
      return "does not answer; nothing has changed";
    case OrderOutcome::kBusy:
      return "is being told to sleep or to wake by somebody else";
    case OrderOutcome::kOlder:
    case OrderOutcome::kUnknown:
      return "runs with another version of the library";
    case OrderOutcome::kRefused:
      return "is another user's";
    case OrderOutcome::kNone:
      break;
  }
  return kill(pid, 0) != 0 && errno == ESRCH
             ? ""
             : "takes no orders: it does not run under the library, or has not allocated device memory yet";
}

Served serve(const SleepFlags& flags, int pid) {
  Served served;
  served.pid = pid;
  const auto end_within =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(flags.timeout));
  const OrderOutcome outcome =
      give_order(kLivePageFolder, pid, flags.kind, flags.tag, kBeginWithin, end_within, &served.answer);
  served.problem = problem_of(pid, outcome, served.answer, !flags.tag.empty());
  if (outcome != OrderOutcome::kEnded && served.problem.empty()) {
    say("there is no process " + std::to_string(pid));
    served.problem = "has ended";
  } else if (!served.problem.empty()) {
    say("process " + std::to_string(pid) + " " + served.problem);
  }
  const SleepReport& report = served.answer.report;
  const bool stays = report.in_use_bytes + report.no_host_bytes + report.other_bytes > 0;
  served.is_whole = served.problem.empty() && (flags.kind == OrderKind::kSleep ? !stays : report.asleep_bytes == 0);
  return served;
}

std::string what_stays(const SleepReport& report) {
  const std::pair<Bytes, const char*> reasons[] = {{report.pinned_bytes, "pinned"},
                                                   {report.external_bytes, "mapped by the program"},
                                                   {report.in_use_bytes, "in use"},
                                                   {report.no_host_bytes, "for want of host memory"},
                                                   {report.other_bytes, "not taken back by the driver"},
                                                   {report.untagged_bytes, "without that tag"}};
  std::string text;
  for (const auto& [bytes, reason] : reasons) {
    if (bytes > 0) text += (text.empty() ? ": " : ", ") + human_bytes(bytes) + " " + reason;
  }
  return text;
}

std::string line_of(const SleepFlags& flags, const Served& served) {
  const SleepReport& report = served.answer.report;
  std::string program = served.answer.program;
  if (program.size() > kMostOfProgram) program = program.substr(0, kMostOfProgram) + "...";
  std::string text = "process " + std::to_string(served.pid) + " (" + program + "): ";
  if (flags.kind == OrderKind::kWake) {
    text += human_bytes(report.copied_bytes) + " came back";
    if (report.asleep_bytes > 0) text += ", " + human_bytes(report.asleep_bytes) + " still asleep: no room for it";
    return text;
  }
  const Bytes given = report.device_bytes_before - std::min(report.device_bytes_before, report.device_bytes);
  text += human_bytes(given) + " given back, " + human_bytes(report.copied_bytes) + " copied to the host";
  if (report.device_bytes > 0) text += "; " + human_bytes(report.device_bytes) + " stay" + what_stays(report);
  return text;
}

ordered_json as_json(const SleepFlags& flags, const Served& served) {
  const char* const done = flags.kind == OrderKind::kSleep ? "asleep" : "awake";
  const char* const partly = flags.kind == OrderKind::kSleep ? "partly_asleep" : "partly_awake";
  ordered_json json = {{"pid", served.pid}};
  if (!served.problem.empty()) {
    json["outcome"] = "failed";
    json["problem"] = served.problem;
    return json;
  }
  const SleepReport& report = served.answer.report;
  json["uid"] = served.answer.owner;
  json["program"] = served.answer.program;
  json["outcome"] = served.is_whole ? done : partly;
  json["device_bytes_before"] = report.device_bytes_before;
  json["device_bytes"] = report.device_bytes;
  if (flags.kind == OrderKind::kSleep) {
    json["pinned_bytes"] = report.pinned_bytes;
    json["external_bytes"] = report.external_bytes;
    json["in_use_bytes"] = report.in_use_bytes;
    json["no_host_bytes"] = report.no_host_bytes;
    json["other_bytes"] = report.other_bytes;
    json["untagged_bytes"] = report.untagged_bytes;
  }
  json["asleep_bytes"] = report.asleep_bytes;
  json["copied_bytes"] = report.copied_bytes;
  return json;
}

int serve_all(const SleepFlags& flags) {
  if (flags.pids.empty() != flags.all) {
    say(flags.all ? "--all and PID are two requests; make one" : "whom? name a PID, or --all");
    return kWrongUsage;
  }
  const std::vector<int> pids = flags.all ? live_processes_of_own_user(kLivePageFolder) : flags.pids;
  if (pids.empty()) say("no process of yours runs under the library");
  int status = pids.empty() ? kFailed : kDone;
  ordered_json json = {{"schema", flags.kind == OrderKind::kSleep ? "thermocline-sleep/1" : "thermocline-wake/1"},
                       {"processes", ordered_json::array()}};
  for (const int pid : pids) {
    const Served served = serve(flags, pid);
    if (!served.is_whole) status = kFailed;
    json["processes"].push_back(as_json(flags, served));
    if (!flags.json && served.problem.empty()) std::printf("%s\n", line_of(flags, served).c_str());
  }
  if (flags.json) std::printf("%s\n", json_text(json).c_str());
  return status;
}

void add(CLI::App& app, CommandLine* line, OrderKind kind, const char* name, const char* description) {
  auto flags = std::make_shared<SleepFlags>();
  flags->kind = kind;
  CLI::App* command = app.add_subcommand(name, description);
  add_number(command, "PID", flags->pids, kProcessNumbers, "processes that run under the library");
  command->add_flag("--all", flags->all, "all of yours");
  command->add_option("--tag", flags->tag, "only buffers to which the program has given this tag (thermocline_tag)")
      ->type_name("TEXT")
      ->check([](const std::string& text) {
        const bool fits = !text.empty() && text.size() < LivePage::kTagBytes;
        return fits ? std::string()
                    : "a tag has 1 to " + std::to_string(LivePage::kTagBytes - 1) + " bytes, and '" + text + "' has " +
                          std::to_string(text.size());
      });
  add_number(command, "--timeout", flags->timeout, kTimeouts, "seconds to wait for each (default: 120)");
  command->add_flag("--json", flags->json, "one JSON object on stdout");
  command->callback([=] { line->action = [flags] { return serve_all(*flags); }; });
}

}  // namespace

void add_sleep(CLI::App& app, CommandLine* line) {
  add(app, line, OrderKind::kSleep, "sleep",
      "Running processes give their device memory back; contents go to the host");
}

void add_wake(CLI::App& app, CommandLine* line) {
  add(app, line, OrderKind::kWake, "wake", "Sleeping processes take their device memory again, before they use it");
}

}  // namespace thermocline
