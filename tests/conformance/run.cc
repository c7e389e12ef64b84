// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/run.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>

#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr unsigned kMostSeconds = 120;  // per rule: much more than any takes; ends a rule that hangs
constexpr std::size_t kCallBytes = 256;

using Lines = std::vector<std::string>;

void send(int to, const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\0';
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(to, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) return;
    if (written > 0) done += static_cast<std::size_t>(written);
  }
}

Lines receive(int from) {
  std::string text;
  char part[4096];
  for (ssize_t got = 0; (got = ::read(from, part, sizeof part)) != 0;) {
    if (got > 0) text.append(part, static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  Lines lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\0', begin);
    if (end == std::string::npos) break;
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

struct Ended {
  Lines lines;  // empty: the rule did not run to its end
  std::string how;
};

Ended in_child(const std::function<Lines()>& work) {
  int ends[2];
  if (pipe(ends) != 0) return {{}, "no pipe"};
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return {{}, "no process"};
  }
  if (child == 0) {
    close(ends[0]);
    alarm(kMostSeconds);
    send(ends[1], work());
    _exit(0);
  }
  close(ends[1]);
  Ended ended;
  ended.lines = receive(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    ended.how = WTERMSIG(status) == SIGALRM ? "did not end" : std::string("died of ") + strsignal(WTERMSIG(status));
  } else {
    ended.how = "ended with status " + std::to_string(WEXITSTATUS(status));
  }
  return ended;
}

Lines to_lines(Outcome outcome, const std::string& detail, const Lines& answers) {
  Lines lines = {std::to_string(static_cast<int>(outcome)), detail};
  lines.insert(lines.end(), answers.begin(), answers.end());
  return lines;
}

Lines run_here(const Rule& rule, const std::string& library, char* call) {
  Driver driver;
  if (const std::string why = driver.load(library); !why.empty()) return to_lines(Outcome::kDisagrees, why, {});
  Session session(driver, [call](const char* text) { std::snprintf(call, kCallBytes, "%s", text); });
  try {
    session.begin(rule);
    rule.body(session);
    return to_lines(Outcome::kAgrees, "", session.answers());
  } catch (const Disagreement& disagreement) {
    return to_lines(Outcome::kDisagrees, disagreement.what, session.answers());
  } catch (const NotSupported& reason) {
    return to_lines(Outcome::kNotSupported, reason.what, session.answers());
  } catch (const MissingFunction& function) {
    return to_lines(Outcome::kNotSupported, std::string("the driver has no ") + function.name, session.answers());
  }
}

}  // namespace

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kAgrees:
      return "agrees";
    case Outcome::kDisagrees:
      return "disagrees";
    case Outcome::kNotSupported:
      return "not supported";
  }
  return "";
}

Result run(const Rule& rule, const std::string& library) {
  void* const shared = mmap(nullptr, kCallBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return {Outcome::kDisagrees, "no memory to share with the rule's process", {}};
  const Ended ended = in_child([&] { return run_here(rule, library, static_cast<char*>(shared)); });
  const std::string last_call = static_cast<const char*>(shared);
  munmap(shared, kCallBytes);
  if (ended.lines.size() < 2) {
    const std::string where = last_call.empty() ? "" : " in or after " + last_call;
    return {Outcome::kDisagrees, "the rule's process " + ended.how + where, {}};
  }
  return {
      static_cast<Outcome>(std::stoi(ended.lines[0])), ended.lines[1], {ended.lines.begin() + 2, ended.lines.end()}};
}

DeviceFacts describe_device(const std::string& library) {
  const Ended ended = in_child([&]() -> Lines {
    Driver cu;
    if (const std::string why = cu.load(library); !why.empty()) return {why, "", "0", "0"};
    char name[256] = "";
    int version = 0, major = 0, minor = 0;
    CUresult result = cu.cuInit(0);
    if (result == CUDA_SUCCESS) result = cu.cuDriverGetVersion(&version);
    if (result == CUDA_SUCCESS) result = cu.cuDeviceGetName(name, sizeof name, 0);
    if (result == CUDA_SUCCESS)
      result = cu.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
    if (result == CUDA_SUCCESS)
      result = cu.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
    if (result != CUDA_SUCCESS) return {"no usable device: " + name_of(cu, result), "", "0", "0"};
    return {"", name, std::to_string(version), std::to_string(major * 10 + minor)};
  });
  if (ended.lines.size() != 4) return {"asking the driver for its device " + ended.how, "", 0, 0};
  return {ended.lines[0], ended.lines[1], std::stoi(ended.lines[2]), std::stoi(ended.lines[3])};
}

}  // namespace conformance
