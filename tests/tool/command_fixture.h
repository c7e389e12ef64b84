// SPDX-License-Identifier: Apache-2.0
// Runs the command as a user does, without any settings files except the test's.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/subprocess.h"

namespace thermocline::test {

class Command : public testing::Test {
 protected:
  Command() : folder_(std::filesystem::temp_directory_path() / ("thermocline_command_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Command() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  static std::string read(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  // The names of the test's files, in order.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }

  ProcessResult run(std::vector<std::string> arguments, std::vector<std::string> environment = {}) const {
    arguments.insert(arguments.begin(), THERMOCLINE_COMMAND);
    environment.push_back("XDG_CONFIG_HOME=" + folder_.string());
    return run_process(arguments, environment);
  }
  // Expects one line on stderr, nothing on stdout, and the status.
  void expect_refused(std::vector<std::string> arguments, int status, const std::string& line) const {
    const ProcessResult result = run(std::move(arguments));
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, "thermocline: " + line + "\n");
  }

  std::filesystem::path folder_;
};

}  // namespace thermocline::test
