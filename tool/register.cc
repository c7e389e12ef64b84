// SPDX-License-Identifier: Apache-2.0
#include "tool/register.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <chrono>
#include <string>

#include "driver/assumptions.h"
#include "driver/examination.h"
#include "driver/library.h"

namespace thermocline {
namespace {

using nlohmann::ordered_json;

// doctor --gpu may take ten seconds in all.
constexpr std::chrono::seconds kTimeLimit(8);

ordered_json words(const std::string& text) {
  ordered_json list = ordered_json::array();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    list.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return list;
}

void add(ordered_json* rows, const char* subject, std::span<const Assumption> table) {
  for (const Assumption& a : table) {
    rows->push_back({{"id", a.id},
                     {"subject", subject},
                     {"relies", a.relies},
                     {"source", a.source},
                     {"simulator", a.simulator},
                     {"switches", words(a.switches)},
                     {"breaks", a.breaks},
                     {"rules", words(a.rules)},
                     {"at_start", a.at_start},
                     {"no_probe", a.no_probe},
                     {"fallback", a.fallback}});
  }
}

const char* word_of(Finding finding) {
  return finding == Finding::kWorks ? "holds" : finding == Finding::kFails ? "fails" : "not tried";
}

// The child: writes one line per device as soon as the device has answered.
void answer_into(int pipe) {
  const auto say = [pipe](const ordered_json& line) {
    const std::string text = line.dump() + "\n";
    return write(pipe, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  };
  std::string why;
  const auto library = DriverLibrary::open(nullptr, &why);
  int count = 0;
  if (library == nullptr || !library->initialise().ok() || !library->device_count(&count).ok()) return;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    DeviceSummary summary;
    if (!library->summary(ordinal, &summary).ok()) continue;
    ordered_json line = {{"device", ordinal}, {"name", summary.name}, {"answers", ordered_json::array()}};
    std::string refused;
    for (const Answer& answer : examine(*library, ordinal, &refused)) {
      line["answers"].push_back(
          {{"id", answer.assumption}, {"seen", word_of(answer.finding)}, {"detail", answer.detail}});
    }
    if (!refused.empty()) line["error"] = refused;
    if (!say(line)) return;
  }
}

std::string read_until(int pipe, std::chrono::steady_clock::time_point end, bool* in_time) {
  std::string text;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd wanted{.fd = pipe, .events = POLLIN, .revents = 0};
    *in_time = left.count() > 0 && ::poll(&wanted, 1, static_cast<int>(left.count())) > 0;
    char bytes[4096];
    const ssize_t got = *in_time ? read(pipe, bytes, sizeof bytes) : 0;
    if (got <= 0) return text;
    text.append(bytes, static_cast<std::size_t>(got));
  }
}

}  // namespace

ordered_json assumptions_json() {
  ordered_json rows = ordered_json::array();
  add(&rows, "mapping", assumptions_of_mapping());
  add(&rows, "work", assumptions_of_work());
  add(&rows, "surroundings", assumptions_of_surroundings());
  return rows;
}

ordered_json answers_of_devices() {
  ordered_json devices = ordered_json::array();
  int ends[2];
  if (pipe(ends) != 0) return devices;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    answer_into(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  bool in_time = child > 0;
  const std::string text = in_time ? read_until(ends[0], std::chrono::steady_clock::now() + kTimeLimit, &in_time) : "";
  close(ends[0]);
  int status = 0;
  if (child > 0) {
    if (!in_time) kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    ordered_json line = ordered_json::parse(text.substr(at, end - at), nullptr, false);
    if (!line.is_discarded()) devices.push_back(std::move(line));
    at = end + 1;
  }
  if (!in_time) devices.push_back({{"error", "no answer within 8 seconds"}});
  if (in_time && WIFSIGNALED(status))
    devices.push_back({{"error", "ended by signal " + std::to_string(WTERMSIG(status))}});
  return devices;
}

}  // namespace thermocline
