// SPDX-License-Identifier: Apache-2.0
// A program of two ranks that exchange data through host memory, started by mpirun: the same output with and without a
// budget, statistics and traces by rank.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tool/command_fixture.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

const std::string kExchange = PROGRAM_FOLDER "/exchange";
// Allocated by each rank.
constexpr std::uint64_t kHeld = std::uint64_t{48} << 20;

class Ranks : public Command {
 protected:
  void SetUp() override {
    if (std::string(MPIRUN).empty()) GTEST_SKIP() << "no MPI, or under a sanitizer";
    static const ProcessResult alone = launch({"true"});
    if (alone.status != 0) GTEST_SKIP() << "mpirun starts nothing here: " << alone.err;
  }
  ~Ranks() override {
    std::error_code error;
    std::filesystem::remove("/dev/shm/thermocline-host." + std::to_string(geteuid()) + "." + group_, error);
  }

  ProcessResult launch(const std::vector<std::string>& command, std::vector<std::string> environment = {}) const {
    std::vector<std::string> arguments = {MPIRUN, "-n", "2"};
    arguments.insert(arguments.end(), command.begin(), command.end());
    return run_process(arguments, with_mpi(std::move(environment)));
  }
  // Under the command, with a simulated device for each rank.
  ProcessResult launch_run(const std::vector<std::string>& flags, std::vector<std::string> environment = {},
                           const std::string& argument = "") const {
    std::vector<std::string> command = {THERMOCLINE_COMMAND, "run", "--simulate", "reference"};
    command.insert(command.end(), flags.begin(), flags.end());
    command.insert(command.end(), {"--", kExchange});
    if (!argument.empty()) command.push_back(argument);
    return launch(command, std::move(environment));
  }
  // On a single machine: no remote shell, more ranks than cores, any user.
  std::vector<std::string> with_mpi(std::vector<std::string> environment) const {
    environment.insert(environment.end(),
                       {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_plm=isolated",
                        "OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_MCA_btl=self,vader", "OMPI_MCA_pml=ob1",
                        "OMPI_MCA_btl_vader_single_copy_mechanism=none", "OMPI_MCA_mpi_yield_when_idle=1",
                        "OMPI_MCA_hwloc_base_binding_policy=none", "XDG_CONFIG_HOME=" + folder_.string(),
                        "THERMOCLINE_HOST_GROUP=" + group_});
    return environment;
  }

  const std::string group_ = "ranks-" + std::to_string(getpid());
};

std::vector<std::string> lines_with(const std::string& text, const std::string& what) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(what) != std::string::npos) found.push_back(line);
  }
  return found;
}

std::uint64_t number(const std::string& line, const std::string& name) {
  const std::size_t at = line.find(" " + name + "=");
  EXPECT_NE(at, std::string::npos) << name << " in: " << line;
  return at == std::string::npos ? 0 : std::stoull(line.substr(at + name.size() + 2));
}

TEST_F(Ranks, PrintTheSameWithAndWithoutABudgetInEveryOrder) {
  const ProcessResult plain = launch_run({"--no-library"});
  ASSERT_EQ(plain.status, 0) << plain.err;
  ASSERT_TRUE(plain.out.starts_with("rank 0 of 2: ")) << plain.out << plain.err;
  EXPECT_EQ(launch_run({}).out, plain.out);
  for (const char* seed : {"0", "1"}) {
    std::vector<std::string> flags = {"--budget", "20MiB", "--check", "--stats=line"};
    if (*seed != '0') flags.insert(flags.end(), {"--seed", seed});
    const ProcessResult swapped = launch_run(flags, {"THERMOCLINE_HOST_LIMIT_SHARED=256MiB"});
    EXPECT_EQ(swapped.status, 0) << swapped.err;
    EXPECT_EQ(swapped.out, plain.out) << swapped.err;
    EXPECT_EQ(lines_with(swapped.err, "races=0").size(), 2u) << swapped.err;
    std::vector<std::string> ranks = lines_with(swapped.err, "peak_live_bytes=");
    ASSERT_EQ(ranks.size(), 2u) << swapped.err;
    for (const std::string& line : ranks) {
      EXPECT_EQ(number(line, "evicted_bytes") > 0, true) << line;
      EXPECT_LE(number(line, "peak_device_bytes"), std::uint64_t{20} << 20) << line;
    }
    EXPECT_EQ(number(ranks[0], "rank") + number(ranks[1], "rank"), 1u) << "0 and 1";
  }
}

// Each needs 48 MiB of host memory, and 32 MiB for gaps; the limit is enough for one of them.
TEST_F(Ranks, OneIsRefusedWhatTheOtherHolds) {
  const ProcessResult result = launch_run({"--budget", "20MiB"}, {"THERMOCLINE_HOST_LIMIT_SHARED=128MiB"});
  EXPECT_NE(result.status, 0);
  EXPECT_NE(result.err.find("no room on the host beside other processes"), std::string::npos) << result.err;
}

TEST_F(Ranks, AreShownByNumberAndAddedUp) {
  // Other programs of this user may be listed too, other tests' ranks among them: the limit tells these from those.
  constexpr std::uint64_t kLimit = std::uint64_t{272} << 20;
  const ProcessResult result =
      launch_run({"--budget", "20MiB"}, {"THERMOCLINE_HOST_LIMIT_SHARED=272MiB"}, THERMOCLINE_COMMAND " stats --json");
  ASSERT_EQ(result.status, 0) << result.err;
  const std::vector<std::string> shown = lines_with(result.out, "thermocline-stats/1");
  ASSERT_EQ(shown.size(), 1u) << result.out;
  const json all = json::parse(shown[0], nullptr, false);
  std::vector<int> ranks;
  for (const json& process : all["processes"]) {
    if (process["world_size"] != 2 || process["statistics"]["host_shared_limit_bytes"] != kLimit) continue;
    ranks.push_back(process["rank"]);
    EXPECT_EQ(process["statistics"]["live_bytes"], kHeld);
    EXPECT_GE(process["statistics"]["host_shared_bytes"], 2 * kHeld);
  }
  std::ranges::sort(ranks);
  EXPECT_EQ(ranks, (std::vector{0, 1})) << result.out;
  EXPECT_GE(all["all"]["sum"]["live_bytes"], 2 * kHeld);
}

TEST_F(Ranks, EachLeavesATraceOfItsOwn) {
  const ProcessResult recorded =
      launch({THERMOCLINE_COMMAND, "record", "-o", path("step.jsonl.gz"), "--simulate", "reference", "--", kExchange});
  ASSERT_EQ(recorded.status, 0) << recorded.err;
  const ProcessResult compared = run({"compare", path("step.rank0.jsonl.gz"), path("step.rank1.jsonl.gz"), "--json"});
  ASSERT_EQ(compared.status, 0) << compared.err << recorded.err;
  const json found = json::parse(compared.out, nullptr, false);
  EXPECT_EQ(found["all"]["same"], true) << compared.out;
  EXPECT_EQ(found["all"]["peak_live_bytes"], 2 * kHeld);
  EXPECT_FALSE(std::filesystem::exists(path("step.jsonl.gz")));
}

// The command around the launcher; the rank replaces the placeholder in the name.
TEST_F(Ranks, AreToldApartWhereOneCommandRecordsThemAll) {
  const ProcessResult recorded =
      run({"record", "-o", path("step-%r.jsonl.gz"), "--simulate", "reference", "--", MPIRUN, "-n", "2", kExchange},
          with_mpi({}));
  ASSERT_EQ(recorded.status, 0) << recorded.err;
  const ProcessResult replayed =
      run({"replay", path("step-1.jsonl.gz"), "--device", "reference", "--policy", "none", "--json"});
  EXPECT_EQ(replayed.status, 0) << replayed.err << recorded.err;
  EXPECT_EQ(json::parse(replayed.out, nullptr, false)["peak_live_bytes"], kHeld);
  EXPECT_TRUE(std::filesystem::exists(path("step-0.jsonl.gz")));
}

}  // namespace
}  // namespace thermocline::test
