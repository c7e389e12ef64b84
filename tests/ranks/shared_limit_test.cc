// SPDX-License-Identifier: Apache-2.0
// Two processes under one limit for pinned host memory, and what happens when one of them is killed.
#include <regex>

#include "tests/tool/command_fixture.h"

namespace thermocline::test {
namespace {

// The program allocates 24 MiB with a budget of 16 MiB, so it needs 24 MiB of host memory, and 32 MiB for gaps.
const std::string kHolds = PROGRAM_FOLDER "/shown ";

class SharedLimit : public Command {
 protected:
  // `shown` runs its first command while it has everything allocated, and its second one after it has freed it.
  ProcessResult run_holder(const std::string& limit, const std::vector<std::string>& commands,
                           const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"run", "--simulate",           "reference", "--budget", "16MiB",
                                          "--",  PROGRAM_FOLDER "/shown"};
    arguments.insert(arguments.end(), commands.begin(), commands.end());
    std::vector<std::string> environment = {
        "THERMOCLINE_HOST_LIMIT_SHARED=" + limit, "THERMOCLINE_HOST_GROUP=" + group_,
        "ASAN_OPTIONS=verify_asan_link_order=0:handle_segv=0:detect_leaks=0", "TSAN_OPTIONS=handle_segv=0"};
    environment.insert(environment.end(), more.begin(), more.end());
    return run(arguments, environment);
  }
  ~SharedLimit() override { std::filesystem::remove(ledger()); }
  std::filesystem::path ledger() const {
    return "/dev/shm/thermocline-host." + std::to_string(geteuid()) + "." + group_;
  }

  const std::string group_ = "test-" + std::to_string(getpid());
  // A second process like the first; "echo" lets the first one continue whatever happens to it.
  const std::string second_ =
      THERMOCLINE_COMMAND " run --simulate reference --budget 16MiB -- " + kHolds + "true; echo second ended with $?; ";
};

TEST_F(SharedLimit, BothRunWhereTheLimitHoldsBoth) {
  const ProcessResult result = run_holder("128MiB", {second_});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "second ended with 0\n") << result.err;
}

TEST_F(SharedLimit, TheSecondIsRefusedWithTheReasonAndTheFirstGoesOn) {
  const ProcessResult result = run_holder("80MiB", {second_});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "second ended with 1\n") << result.err;
  EXPECT_NE(result.err.find("no room on the host beside other processes"), std::string::npos) << result.err;
  EXPECT_TRUE(std::regex_search(result.err, std::regex("host_limit_shared = \"[0-9]+MiB\""))) << result.err;
}

// It has ended when its parent, the command, has seen it end.
TEST_F(SharedLimit, WhatAKilledProcessHeldIsThereForTheNext) {
  const ProcessResult result =
      run_holder("80MiB", {second_ + "kill -9 $SHOWN; while [ -e /proc/$SHOWN ]; do :; done; " + second_});
  EXPECT_EQ(result.status, 128 + 9) << result.err;
  EXPECT_EQ(result.out, "second ended with 1\nsecond ended with 0\n") << result.err;
}

TEST_F(SharedLimit, OtherGroupsHaveALimitOfTheirOwn) {
  const ProcessResult result = run_holder("80MiB", {"THERMOCLINE_HOST_GROUP=" + group_ + "-2 " + second_});
  EXPECT_EQ(result.out, "second ended with 0\n") << result.err;
  std::filesystem::remove(ledger().string() + "-2");
}

TEST_F(SharedLimit, AGroupThatIsNoNameIsSaidAndUnderStrictRefused) {
  const std::vector<std::string> wrong = {"THERMOCLINE_HOST_GROUP=../x"};
  const ProcessResult without = run_holder("80MiB", {"true"}, wrong);
  EXPECT_EQ(without.status, 0) << without.err;
  EXPECT_NE(without.err.find("host_limit_shared can not be kept: '../x' is no name"), std::string::npos) << without.err;
  const ProcessResult strict = run_holder("80MiB", {"true"}, {wrong[0], "THERMOCLINE_STRICT=true"});
  EXPECT_EQ(strict.status, 1) << strict.err;
}

}  // namespace
}  // namespace thermocline::test
