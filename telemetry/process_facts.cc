// SPDX-License-Identifier: Apache-2.0
#include "telemetry/process_facts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "driver/printable.h"

namespace thermocline {
namespace {

// The beginning of a small file, as much as fits.
std::string contents(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  std::string text(1024, '\0');
  const ssize_t length = read(file, text.data(), text.size());
  close(file);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  return text;
}

}  // namespace

std::optional<std::uint64_t> beginning_of(int pid) {
  const std::string text = contents(("/proc/" + std::to_string(pid) + "/stat").c_str());
  // The program's name is in parentheses and may itself contain parentheses.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  char state = 0;
  unsigned long long began = 0;
  if (std::sscanf(text.c_str() + name_end + 1,
                  " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state,
                  &began) != 2 ||
      state == 'Z' || state == 'X') {
    return std::nullopt;
  }
  return began;
}

bool runs_as(int pid, uid_t user) {
  // The program's name is before the wanted field, but its newlines are escaped.
  const std::string text = contents(("/proc/" + std::to_string(pid) + "/status").c_str());
  const std::size_t line = text.find("\nUid:");
  std::array<unsigned, 4> users{};
  return line != std::string::npos &&
         std::sscanf(text.c_str() + line, "\nUid: %u %u %u %u", &users[0], &users[1], &users[2], &users[3]) == 4 &&
         std::ranges::find(users, user) != users.end();
}

std::uint64_t own_pid_namespace() {
  struct stat facts {};
  return stat("/proc/self/ns/pid", &facts) == 0 ? facts.st_ino : 0;
}

std::string program_of_process() {
  std::string line = contents("/proc/self/cmdline");
  while (!line.empty() && line.back() == '\0') line.pop_back();
  const std::size_t first_end = std::min(line.find('\0'), line.size());
  if (const std::size_t slash = line.rfind('/', first_end); slash != std::string::npos) line.erase(0, slash + 1);
  std::ranges::replace(line, '\0', ' ');
  return printable(line);
}

}  // namespace thermocline
