// SPDX-License-Identifier: Apache-2.0
// The command with names that are no valid text, under supervisors, and with privileges that its user does not have.
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/tool/command_fixture.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

TEST_F(Command, PathsThatAreNoUtf8AreShownInJsonAllTheSame) {
  const std::string file = write("\xff\x9b.toml", "budget = \"60%\"\n");
  const ProcessResult result = run({"config", "show", "--json"}, {"THERMOCLINE_CONFIG=" + file});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(json::parse(result.out)["settings"]["budget"]["source"], path("\uFFFD\uFFFD.toml") + ":1");
}

// As some supervisors leave it to what they start.
TEST_F(Command, TheStatusIsTheProgramsAlsoWhereEndedChildrenAreIgnored) {
  const ProcessResult result =
      run_process({"/usr/bin/env", "--ignore-signal=CHLD", THERMOCLINE_COMMAND, "run", "--", "sh", "-c", "exit 7"}, {});
  EXPECT_EQ(result.status, 7) << result.err;
}

TEST_F(Command, AProgramWithMoreRightsThanItsUserHeedsNoVariableAndNoFileOfTheFolder) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make such a program";
  const std::string program = path("privileged");
  std::filesystem::copy_file(THERMOCLINE_COMMAND, program);
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  ASSERT_EQ(chown(program.c_str(), 54321, 54321), 0);
  ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  write("thermocline.toml", "policy = \"none\"\n");
  const std::string show = "cd " + path("") + " && THERMOCLINE_STATS=1 ";
  const std::string plain = run_process({"sh", "-c", show + THERMOCLINE_COMMAND " config show"}).out;
  EXPECT_NE(plain.find("policy = \"none\""), std::string::npos) << plain;
  EXPECT_NE(plain.find("stats = \"table\""), std::string::npos) << plain;
  const std::string privileged = run_process({"sh", "-c", show + program + " config show"}).out;
  EXPECT_NE(privileged.find("policy = \"learned\""), std::string::npos) << privileged;
  EXPECT_NE(privileged.find("stats = \"off\""), std::string::npos) << privileged;
}

TEST_F(Command, APlanOfFaultsIsCheckedBeforeTheProgramRuns) {
  const auto refused = [this](const std::string& plan, int status, const std::string& why) {
    expect_refused({"run", "--simulate", "reference", "--faults", plan, "--", "true"}, status, "--faults: " + why);
  };
  const std::string what = "; a plan is text (\"fail cuMemCreate call 3 OUT_OF_MEMORY\"), or a file with such lines";
  refused("nothere", 2, "the plan of faults nothere can not be read" + what);
  refused("", 2, "the plan of faults  can not be read" + what);
  refused(folder_.string(), 2, folder_.string() + " is a folder" + what);
  const std::string unknown = "1: the simulated driver has no function cuBogus that may fail";
  refused("fail cuBogus call 3 OUT_OF_MEMORY", 2, "plan of faults, line " + unknown + what);
  const std::string file = write("plan.txt", "fail cuBogus call 3 OUT_OF_MEMORY\n");
  refused(file, 3, file + ":" + unknown);
  const std::string good = write("a good plan.txt", "link 0.5\n");
  for (const std::string& plan : {std::string("link 0.5"), good}) {
    EXPECT_EQ(run({"run", "--simulate", "reference", "--faults", plan, "--", "true"}).err, "") << plan;
  }
}

}  // namespace
}  // namespace thermocline::test
