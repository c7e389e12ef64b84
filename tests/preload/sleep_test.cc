// SPDX-License-Identifier: Apache-2.0
// `thermocline sleep` and `thermocline wake` with a running process.
#include <gtest/gtest.h>

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

constexpr std::uint64_t kBuffer = 4 * kMiB;
constexpr std::uint64_t kAll = 8 * kBuffer;
const std::string kSleep = COMMAND_FILE " sleep --json $SLEEPER";
const std::string kWake = COMMAND_FILE " wake --json $SLEEPER";
const std::string kStats = COMMAND_FILE " stats --json $SLEEPER";
// A command that does not do all that it was asked for exits with 1.
const std::string kInVain = "; test $? = 1";

// The commands print JSON, one line each; the other output is the program's.
struct Slept {
  ProcessResult result;
  std::string program;  // what it printed
  std::vector<json> told;
};

Slept run_sleeper(const std::string& what, const std::vector<std::string>& commands, const Running& running) {
  std::vector<std::string> arguments = {"sleeper", what};
  arguments.insert(arguments.end(), commands.begin(), commands.end());
  Slept slept{.result = run_program(arguments, running), .program = {}, .told = {}};
  EXPECT_EQ(slept.result.status, 0) << slept.result.err;
  std::istringstream lines(slept.result.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('{')) {
      slept.told.push_back(json::parse(line, nullptr, false)["processes"][0]);
    } else {
      slept.program += line + "\n";
    }
  }
  return slept;
}

Running under(const std::string& budget = "64MiB", std::vector<std::string> environment = {}) {
  return {.preload = {LIBRARY_FILE}, .budget = budget, .environment = std::move(environment)};
}

void expect_sum(const json& told) {
  const auto number = [&](const char* name) { return told[name].get<std::uint64_t>(); };
  EXPECT_EQ(number("device_bytes"), number("pinned_bytes") + number("external_bytes") + number("in_use_bytes") +
                                        number("no_host_bytes") + number("other_bytes") + number("untagged_bytes"))
      << told;
}

// A program that prints what it prints without the library, and was told to sleep in between.
Slept expect_same_bits_asleep(const std::string& what, const std::vector<std::string>& commands,
                              const Running& running = under()) {
  const ProcessResult plain = run_plain({"sleeper", what, "true"});
  const Slept slept = run_sleeper(what, commands, running);
  EXPECT_EQ(plain.status, 0) << plain.err;
  EXPECT_EQ(slept.program, plain.out) << slept.result.err;
  for (const json& told : slept.told) {
    if (told.contains("pinned_bytes")) expect_sum(told);
  }
  return slept;
}

TEST(Sleep, AnIdleProcessGivesItsMemoryBackAndHasItAgain) {
  const Slept slept = expect_same_bits_asleep("rests", {kSleep, kStats, kWake, kStats});
  ASSERT_EQ(slept.told.size(), 4u) << slept.result.out;
  EXPECT_EQ(slept.told[0]["outcome"], "asleep");
  EXPECT_EQ(slept.told[0]["device_bytes_before"], kAll);
  EXPECT_EQ(slept.told[0]["device_bytes"], 0);
  EXPECT_EQ(slept.told[0]["asleep_bytes"], kAll);
  EXPECT_EQ(slept.told[0]["copied_bytes"], kAll);
  EXPECT_TRUE(slept.told[0]["program"].get<std::string>().starts_with("sleeper")) << slept.told[0];
  EXPECT_EQ(slept.told[1]["statistics"]["device_bytes"], 0);
  EXPECT_EQ(slept.told[1]["statistics"]["asleep_bytes"], kAll);
  EXPECT_EQ(slept.told[1]["statistics"]["evictions_sleep"], 8);
  EXPECT_EQ(slept.told[2]["outcome"], "awake");
  EXPECT_EQ(slept.told[2]["copied_bytes"], kAll);
  EXPECT_EQ(slept.told[3]["statistics"]["device_bytes"], kAll);
  EXPECT_EQ(slept.told[3]["statistics"]["restores_wake"], 8);
}

TEST(Sleep, NothingHasToBeWoken) {
  const Slept slept = expect_same_bits_asleep("rests", {kSleep, kSleep});
  ASSERT_EQ(slept.told.size(), 2u);
  EXPECT_EQ(slept.told[1]["outcome"], "asleep");
  EXPECT_EQ(slept.told[1]["copied_bytes"], 0);
  EXPECT_EQ(slept.told[1]["asleep_bytes"], kAll);
  EXPECT_EQ(statistic(slept.result, "restores_wake"), 0u);
  EXPECT_GE(statistic(slept.result, "restored_bytes"), kAll);
}

TEST(Sleep, WakingWithoutSleepDoesNothing) {
  const Slept slept = expect_same_bits_asleep("rests", {kWake});
  ASSERT_EQ(slept.told.size(), 1u);
  EXPECT_EQ(slept.told[0]["outcome"], "awake");
  EXPECT_EQ(slept.told[0]["copied_bytes"], 0);
}

TEST(Sleep, UnderABudgetThatIsTooSmallToo) {
  for (const char* fallback : {"off", "auto", "full"}) {
    const Slept slept = expect_same_bits_asleep("rests", {kSleep, kWake, kSleep},
                                                under("16MiB", {std::string("THERMOCLINE_HOST_FALLBACK=") + fallback}));
    ASSERT_EQ(slept.told.size(), 3u);
    EXPECT_EQ(slept.told[0]["device_bytes"], 0) << fallback;
    EXPECT_EQ(slept.told[1]["asleep_bytes"], 0) << fallback;
    EXPECT_EQ(slept.told[2]["device_bytes"], 0) << fallback;
  }
}

// The thread that works takes back what it needs, as it needs it; in each order of execution.
TEST(Sleep, InTheMiddleOfItsWorkAProcessGoesOn) {
  for (const std::uint64_t order : orders()) {
    Running running = under();
    running.order = order;
    std::string often;
    for (int i = 0; i < 8; ++i) often += kSleep + " >&2; " + (i % 3 == 2 ? kWake + " >&2; " : "");
    const Slept slept = run_sleeper("works", {often + "true"}, running);
    EXPECT_GT(statistic(slept.result, "evictions_sleep"), 0u) << slept.result.err;
  }
}

TEST(Sleep, WhatAGraphNamesLeavesBetweenItsLaunches) {
  const Slept slept = expect_same_bits_asleep("has_a_graph", {kSleep});
  ASSERT_EQ(slept.told.size(), 1u);
  EXPECT_EQ(slept.told[0]["outcome"], "asleep");
  EXPECT_EQ(slept.told[0]["device_bytes"], 0);
}

TEST(Sleep, WhatTheProgramMapsItselfStaysAndIsCounted) {
  const Slept slept = expect_same_bits_asleep("maps", {kSleep});
  ASSERT_EQ(slept.told.size(), 1u);
  EXPECT_EQ(slept.told[0]["external_bytes"], kBuffer);
  EXPECT_EQ(slept.told[0]["device_bytes"], kBuffer);
}

TEST(Sleep, WhatHasATagSleepsAndWakesAlone) {
  const std::string weights = COMMAND_FILE " sleep --json --tag weights $SLEEPER";
  const std::string cache = COMMAND_FILE " sleep --json --tag kv $SLEEPER";
  const std::string wake = COMMAND_FILE " wake --json --tag kv $SLEEPER";
  const std::string unknown = COMMAND_FILE " sleep --json --tag activations $SLEEPER 2>/dev/null";
  const Slept slept = expect_same_bits_asleep("names", {weights, cache, wake, kStats, unknown + kInVain, kSleep});
  ASSERT_EQ(slept.told.size(), 6u) << slept.result.out;
  EXPECT_EQ(slept.told[0]["outcome"], "asleep");
  EXPECT_EQ(slept.told[0]["asleep_bytes"], 4 * kBuffer);
  EXPECT_EQ(slept.told[0]["untagged_bytes"], 4 * kBuffer);
  EXPECT_EQ(slept.told[1]["asleep_bytes"], 2 * kBuffer);
  EXPECT_EQ(slept.told[1]["device_bytes"], 2 * kBuffer);
  EXPECT_EQ(slept.told[2]["outcome"], "awake");
  EXPECT_EQ(slept.told[2]["copied_bytes"], 2 * kBuffer);
  EXPECT_EQ(slept.told[3]["statistics"]["asleep_bytes"], 4 * kBuffer);
  EXPECT_EQ(slept.told[4]["problem"], "has never used that tag");
  EXPECT_EQ(slept.told[5]["device_bytes"], 0);
}

TEST(Sleep, UnderAFullHostFallbackATagIsRefused) {
  const std::string weights = COMMAND_FILE " sleep --json --tag weights $SLEEPER 2>/dev/null";
  const Slept slept =
      expect_same_bits_asleep("names", {weights + kInVain}, under("64MiB", {"THERMOCLINE_HOST_FALLBACK=full"}));
  ASSERT_EQ(slept.told.size(), 1u);
  EXPECT_EQ(slept.told[0]["outcome"], "failed");
}

TEST(Sleep, WhatABlockedStreamUsesStaysAndNobodyWaitsForIt) {
  const Slept slept = expect_same_bits_asleep("stands", {kSleep + kInVain, kWake});
  ASSERT_EQ(slept.told.size(), 2u);
  EXPECT_EQ(slept.told[0]["outcome"], "partly_asleep");
  EXPECT_GE(slept.told[0]["in_use_bytes"], kBuffer);
}

TEST(Sleep, WithoutEnoughHostMemoryItIsPartial) {
  const Slept slept =
      expect_same_bits_asleep("rests", {kSleep + kInVain, kWake},
                              under("64MiB", {"THERMOCLINE_HOST_LIMIT=12MiB", "THERMOCLINE_HOST_FALLBACK=off"}));
  ASSERT_EQ(slept.told.size(), 2u);
  EXPECT_EQ(slept.told[0]["outcome"], "partly_asleep");
  EXPECT_GE(slept.told[0]["no_host_bytes"], kAll - 3 * kBuffer);
  EXPECT_LT(slept.told[0]["no_host_bytes"], kAll);
  EXPECT_EQ(slept.told[1]["asleep_bytes"], 0);
  const Slept said = run_sleeper("rests", {COMMAND_FILE " sleep $SLEEPER" + kInVain},
                                 under("64MiB", {"THERMOCLINE_HOST_LIMIT=12MiB"}));
  EXPECT_NE(said.program.find("for want of host memory"), std::string::npos) << said.program;
}

TEST(Sleep, AForkedChildIsNotConcerned) { expect_same_bits_asleep("forks", {kSleep, kWake}); }

TEST(Sleep, AProcessMayEndAsleep) {
  const Slept slept = run_sleeper("ends", {kSleep}, under());
  ASSERT_EQ(slept.told.size(), 1u);
  EXPECT_EQ(slept.told[0]["outcome"], "asleep");
}

TEST(Sleep, WhileAGraphIsCapturedItIsRefused) {
  const Slept slept = expect_same_bits_asleep("captures", {kSleep + " 2>/dev/null" + kInVain, kSleep});
  ASSERT_EQ(slept.told.size(), 2u);
  EXPECT_EQ(slept.told[0]["outcome"], "failed");
  EXPECT_EQ(slept.told[0]["problem"], "records a graph; try again");
  EXPECT_EQ(slept.told[1]["outcome"], "asleep");
}

TEST(Sleep, AStoppedProcessDoesNotAnswerAndIsNotPutToSleepLater) {
  const Slept slept = expect_same_bits_asleep(
      "rests", {"kill -STOP $SLEEPER; " + kSleep + " 2>/dev/null; r=$?; kill -CONT $SLEEPER; test $r = 1", kStats});
  ASSERT_EQ(slept.told.size(), 2u);
  EXPECT_EQ(slept.told[0]["problem"], "does not answer; nothing has changed");
  EXPECT_EQ(slept.told[1]["statistics"]["asleep_bytes"], 0);
}

TEST(Sleep, AProcessThatNeverEvictsSaysSo) {
  const Slept slept =
      run_sleeper("rests", {kSleep + " 2>/dev/null" + kInVain}, under("64MiB", {"THERMOCLINE_POLICY=none"}));
  ASSERT_EQ(slept.told.size(), 1u);
  EXPECT_TRUE(slept.told[0]["problem"].get<std::string>().starts_with("never evicts")) << slept.told[0];
}

TEST(Sleep, AProcessOnADeviceThatCanNotMapSaysSo) {
  const Slept slept = run_sleeper("calls", {kSleep + " 2>/dev/null" + kInVain},
                                  under("64MiB", {"THERMOCLINE_SIMULATE_DRIVER=virtual_memory=off"}));
  ASSERT_EQ(slept.told.size(), 1u);
  EXPECT_TRUE(slept.told[0]["problem"].get<std::string>().starts_with("never evicts")) << slept.told[0];
  EXPECT_NE(slept.result.err.find("thermocline_sleep: 801\n"), std::string::npos) << slept.result.err;
}

TEST(Sleep, ADeadlineLeavesItToFinish) {
  const Slept slept = run_sleeper("rests", {kSleep + " --timeout 0.000001 2>/dev/null; true", kSleep}, under());
  ASSERT_EQ(slept.told.size(), 2u);
  EXPECT_EQ(slept.told[1]["outcome"], "asleep");
}

void expect_refusal(const std::vector<std::string>& words, int status, const std::string& said) {
  std::vector<std::string> command = {COMMAND_FILE};
  command.insert(command.end(), words.begin(), words.end());
  const ProcessResult result = run_process(command, {});
  EXPECT_EQ(result.status, status) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "thermocline: " + said + "\n");
}

TEST(Sleep, WhoCanNotBePutToSleepIsNamedInOneLine) {
  for (const char* command : {"sleep", "wake"}) {
    const std::string self = std::to_string(getpid());
    expect_refusal({command, self}, 1,
                   "process " + self +
                       " takes no orders: it does not run under the library, or has not allocated "
                       "device memory yet");
    expect_refusal({command, "4194304"}, 1, "there is no process 4194304");
    expect_refusal({command}, 2, "whom? name a PID, or --all");
    expect_refusal({command, "--all", "7"}, 2, "--all and PID are two requests; make one");
    expect_refusal({command, "7", "--tag", ""}, 2,
                   "--tag: a tag has 1 to 63 bytes, and '' has 0 ('thermocline " + std::string(command) +
                       " --help' shows the usage)");
    expect_refusal({command, "7", "--timeout", "0"}, 2,
                   "--timeout: '0' is not a number from 0.000001 to 86400 ('thermocline " + std::string(command) +
                       " --help' shows the usage)");
  }
}

// The page of a process of another user, as far as the file tells.
TEST(Sleep, AnotherUsersProcessIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const Slept slept = run_sleeper(
      "rests", {"setpriv --reuid=65534 --clear-groups " + kSleep + " 2>&1 >/dev/null" + kInVain, kStats}, under());
  EXPECT_NE(slept.program.find("is another user's"), std::string::npos) << slept.program;
  ASSERT_EQ(slept.told.size(), 1u);
  EXPECT_EQ(slept.told[0]["statistics"]["asleep_bytes"], 0);
}

}  // namespace
}  // namespace thermocline::test
