// SPDX-License-Identifier: Apache-2.0
#include "tests/simulated_cudart/subprocess.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

std::string read_back(FILE* file) {
  std::string text;
  if (std::fseek(file, 0, SEEK_SET) != 0) return text;
  char part[4096];
  std::size_t length = 0;
  while ((length = fread(part, 1, sizeof part, file)) > 0) text.append(part, length);
  fclose(file);
  return text;
}

}  // namespace

Outcome run_program(const std::vector<std::string>& command, const std::vector<std::string>& settings) {
  // Files instead of pipes: neither side can wait for the other.
  FILE* output = tmpfile();
  FILE* errors = tmpfile();
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> arguments;
    arguments.reserve(command.size() + 1);
    for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    for (const std::string& setting : settings) putenv(const_cast<char*>(setting.c_str()));
    dup2(fileno(output), STDOUT_FILENO);
    dup2(fileno(errors), STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_back(output), read_back(errors)};
}
