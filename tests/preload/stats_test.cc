// SPDX-License-Identifier: Apache-2.0
// `thermocline stats` with a running process.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
const std::string kStats = COMMAND_FILE " stats ";

ProcessResult run_shown(const std::vector<std::string>& commands, std::vector<std::string> environment = {}) {
  std::vector<std::string> arguments = {"shown"};
  arguments.insert(arguments.end(), commands.begin(), commands.end());
  return run_program(arguments, {.preload = {LIBRARY_FILE}, .budget = "16MiB", .environment = std::move(environment)});
}

std::vector<json> objects(const std::string& lines) {
  std::vector<json> all;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) all.push_back(json::parse(line, nullptr, false));
  return all;
}

TEST(Stats, ShowsWhatIsSoNowUnderAllNames) {
  const ProcessResult result = run_shown({kStats + "$SHOWN --json", kStats + "$SHOWN --json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const std::vector<json> shown = objects(result.out);
  ASSERT_EQ(shown.size(), 2u) << result.out;
  const json& before = shown[0]["processes"][0];
  const json& after = shown[1]["processes"][0];
  EXPECT_EQ(shown[0]["schema"], "thermocline-stats/1");
  EXPECT_TRUE(before["answered"]);
  EXPECT_TRUE(before["program"].get<std::string>().starts_with("shown")) << before;
  EXPECT_EQ(before["statistics"]["live_bytes"], 24 * kMiB);
  EXPECT_EQ(before["statistics"]["live_buffers"], 6);
  EXPECT_EQ(before["statistics"]["live_bytes_to_16MiB"], 24 * kMiB);
  EXPECT_EQ(before["statistics"]["budget_bytes"], 16 * kMiB);
  EXPECT_LE(before["statistics"]["device_bytes"], 16 * kMiB);
  EXPECT_GE(before["statistics"]["nonresident_bytes"], 8 * kMiB);
  EXPECT_GE(before["statistics"]["host_live_bytes"], 8 * kMiB);
  EXPECT_EQ(before["pytorch"]["allocated_bytes.all.current"], 24 * kMiB);
  EXPECT_LE(before["pytorch"]["reserved_bytes.all.current"], 16 * kMiB);
  EXPECT_EQ(before["tensorflow"]["bytes_in_use"], 24 * kMiB);
  EXPECT_EQ(after["statistics"]["live_bytes"], 0);
  EXPECT_EQ(after["statistics"]["live_buffers"], 0);
  EXPECT_EQ(after["statistics"]["nonresident_bytes"], 0);
  EXPECT_EQ(after["statistics"]["freed_bytes"], 24 * kMiB);
  EXPECT_EQ(after["pytorch"]["allocated_bytes.all.peak"], 24 * kMiB);
}

TEST(Stats, IsReadByPeopleAndByPrometheus) {
  const ProcessResult result = run_shown({kStats + "$SHOWN", kStats + "$SHOWN --prometheus"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("on the device"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("# TYPE thermocline_freed_bytes_total counter\n"), std::string::npos);
  EXPECT_NE(result.out.find("thermocline_freed_bytes_total{pid=\""), std::string::npos);
}

// Without a number only running processes are found; there may be others.
TEST(Stats, FindsTheProcessesThatThereAre) {
  const ProcessResult result = run_shown({kStats + "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json processes = objects(result.out).at(0)["processes"];
  EXPECT_TRUE(std::ranges::any_of(
      processes, [](const json& process) { return process["program"].get<std::string>().starts_with("shown"); }));
}

TEST(Stats, WatchingEndsWithCtrlC) {
  const ProcessResult result = run_shown(
      {"f=$(mktemp); " + kStats +
       "--watch --interval 0.05 --json $SHOWN > $f & p=$!; "
       "until [ $(wc -l < $f) -ge 3 ]; do :; done; kill -INT $p; wait $p; echo ended with $?; head -n 3 $f; rm $f"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with("ended with 0\n")) << result.out;
  for (const json& shown : objects(result.out.substr(result.out.find('\n') + 1))) {
    EXPECT_EQ(shown["processes"][0]["statistics"]["live_bytes"], 24 * kMiB);
  }
}

TEST(Stats, WatchingEndsWithTheProcess) {
  const ProcessResult result = run_shown({"f=$(mktemp); rm $f; mkfifo $f; (" + kStats +
                                          "--watch --interval 0.05 $SHOWN > $f 2>/dev/null; echo ended with $? >&2) & "
                                          "read line < $f; kill -9 $SHOWN; cat $f > /dev/null; rm $f"});
  EXPECT_EQ(result.status, 128 + 9) << result.err;
  EXPECT_NE(result.err.find("ended with 0\n"), std::string::npos) << result.err;
}

TEST(Stats, APageGoesWithItsProcessHoweverThatEnds) {
  const ProcessResult ended = run_shown({"echo $SHOWN; test -e /dev/shm/thermocline.$SHOWN"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/thermocline." + ended.out.substr(0, ended.out.find('\n'))));
  const ProcessResult killed = run_shown({"echo $SHOWN; kill -9 $SHOWN"});
  const std::string pid = killed.out.substr(0, killed.out.find('\n'));
  EXPECT_TRUE(std::filesystem::exists("/dev/shm/thermocline." + pid));
  const ProcessResult asked = run_process({COMMAND_FILE, "stats", pid}, {});
  EXPECT_EQ(asked.status, 1);
  EXPECT_EQ(asked.out, "");
  EXPECT_EQ(asked.err, "thermocline: there is no process " + pid + "\n");
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/thermocline." + pid));
}

TEST(Stats, NothingIsShownWhereThatIsSwitchedOff) {
  const ProcessResult result = run_shown({kStats + "$SHOWN 2>&1; echo ended with $?; cat /proc/$SHOWN/task/*/comm"},
                                         {"THERMOCLINE_PUBLISH=false"});
  EXPECT_NE(result.out.find("shows no statistics: "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("ended with 1\n"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("\nthermocline\n"), std::string::npos) << "a thread: " << result.out;
}

}  // namespace
}  // namespace thermocline::test
