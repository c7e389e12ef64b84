// SPDX-License-Identifier: Apache-2.0
#include "tests/support/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>

extern "C" char** environ;

namespace thermocline::test {
namespace {

bool starts_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

std::vector<std::string> merged_environment(const std::vector<std::string>& added) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (starts_with(text, "THERMOCLINE_") || starts_with(text, "LD_PRELOAD=")) continue;
    variables[text.substr(0, text.find('='))] = text;
  }
  // The same on every machine, whether or not the simulated device was built to run PTX; tests of PTX enable it.
  variables["THERMOCLINE_SIMULATE_KERNELS"] = "THERMOCLINE_SIMULATE_KERNELS=made-up";
  for (const std::string& text : added) {
    const std::size_t equals = text.find('=');
    if (equals + 1 == text.size()) {
      variables.erase(text.substr(0, equals));
    } else {
      variables[text.substr(0, equals)] = text;
    }
  }
  std::vector<std::string> result;
  for (const auto& [name, text] : variables) result.push_back(text);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Reads both pipes until both are closed.
void drain(int out, int err, ProcessResult* result) {
  std::array<pollfd, 2> files{pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  std::array<char, 65536> bytes;
  while (files[0].fd >= 0 || files[1].fd >= 0) {
    if (::poll(files.data(), files.size(), -1) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (files[i].fd < 0 || files[i].revents == 0) continue;
      const ssize_t n = ::read(files[i].fd, bytes.data(), bytes.size());
      if (n > 0) {
        (i == 0 ? result->out : result->err).append(bytes.data(), static_cast<std::size_t>(n));
      } else if (n == 0 || errno != EINTR) {
        ::close(files[i].fd);
        files[i].fd = -1;
      }
    }
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  ProcessResult result;
  std::vector<std::string> argument_strings = arguments;
  std::vector<std::string> environment_strings = merged_environment(environment);
  std::vector<char*> argv = pointers(argument_strings);
  std::vector<char*> envp = pointers(environment_strings);
  std::array<int, 2> out{}, err{};
  if (::pipe2(out.data(), O_CLOEXEC) != 0 || ::pipe2(err.data(), O_CLOEXEC) != 0) {
    result.err = std::string("pipe: ") + std::strerror(errno);
    return result;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(out[1]);
  ::close(err[1]);
  if (error != 0) {
    ::close(out[0]);
    ::close(err[0]);
    result.err = arguments[0] + ": " + std::strerror(error);
    return result;
  }
  drain(out[0], err[0], &result);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace thermocline::test
