// SPDX-License-Identifier: Apache-2.0
// `run`: what it hands to the program, and what it refuses before the program starts.
#include <string>
#include <utility>
#include <vector>

#include "tests/tool/command_fixture.h"

namespace thermocline::test {
namespace {

constexpr const char* kCommand = THERMOCLINE_COMMAND;

class Run : public Command {
 protected:
  // The output of a shell that runs under `run`.
  ProcessResult shell(std::vector<std::string> flags, const std::string& script,
                      std::vector<std::string> environment = {}) const {
    flags.insert(flags.begin(), "run");
    for (const std::string& word : {std::string("--"), std::string("sh"), std::string("-c"), script})
      flags.push_back(word);
    return run(std::move(flags), std::move(environment));
  }
};

TEST_F(Run, TheStatusIsTheProgramsOwn) {
  EXPECT_EQ(shell({}, "exit 0").status, 0);
  EXPECT_EQ(shell({}, "exit 7").status, 7);
  EXPECT_EQ(shell({}, "kill -9 $$").status, 128 + 9);
}

TEST_F(Run, AnInterruptThatIsSentToTheCommandAloneReachesTheProgram) {
  const ProcessResult result = run_process(
      {"bash", "-c",
       "set -m; mkfifo " + path("ready") + "; " + kCommand + " run -- sh -c 'trap \"echo got; exit 5\" INT; echo > " +
           path("ready") + "; while :; do sleep 0.05; done' & job=$!; read < " + path("ready") +
           "; kill -INT $job; wait $job; echo $?"},
      {"XDG_CONFIG_HOME=" + folder_.string()});
  EXPECT_EQ(result.out, "got\n5\n") << result.err;
}

TEST_F(Run, AMissingProgramIsBadInput) {
  expect_refused({"run", "--", "/nowhere/program"}, 3, "can not start '/nowhere/program': No such file or directory");
  expect_refused({"run", "--", "no-such-program-anywhere"}, 3,
                 "can not start 'no-such-program-anywhere': No such file or directory");
  expect_refused({"run", "--", write("data", "text")}, 3,
                 "can not start '" + path("data") + "': Permission denied; the file is not executable (chmod +x)");
  expect_refused({"run", "--budget", "1GiB", "--"}, 2,
                 "run needs a program behind '--': thermocline run [OPTIONS] -- PROGRAM [ARGS]");
}

// Whatever the program prints would be within it.
TEST_F(Run, ATraceIsNotWrittenToTheProgramsOutput) {
  const std::string rest = ": the program's own output goes there and would be within the trace; name a file";
  expect_refused({"record", "-o", "-", "--", "echo", "text"}, 2, "-" + rest);
  expect_refused({"run", "--trace", "/dev/stdout", "--", "echo", "text"}, 2, "/dev/stdout" + rest);
}

TEST_F(Run, TheProgramsFlagsAreItsOwn) {
  const ProcessResult result = run({"run", "--", "echo", "--budget", "--", "-n"});
  EXPECT_EQ(result.out, "--budget -- -n\n");
}

TEST_F(Run, FlagsTravelAsVariablesAndWhatWasPreloadedStays) {
  const std::string script = "echo $THERMOCLINE_BUDGET $THERMOCLINE_POLICY $THERMOCLINE_STATS; echo $LD_PRELOAD";
  const std::string other = "libm.so.6";
  const ProcessResult result =
      shell({"--budget", "3GiB", "--policy", "none", "--stats"}, script, {"LD_PRELOAD=" + other});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with("3GiB none table\n")) << result.out;
  EXPECT_TRUE(shell({"--stats=json", "--budget", "60%device"}, script).out.starts_with("60% json\n"));
  expect_refused({"run", "--stats=lines", "--", "true"}, 2,
                 "--stats: 'lines' is no stats; known are off, table, line, json, true, false; did you mean 'line'?");
  EXPECT_NE(result.out.find("/libthermocline.so.1:" + other + "\n"), std::string::npos) << result.out;
}

TEST_F(Run, ChildrenAreLeftAloneByFlagAndByFile) {
  const std::string file = write("settings.toml", "children = false\n");
  for (const std::vector<std::string>& flags : {std::vector<std::string>{"--no-children"}, {"--config", file}}) {
    const ProcessResult result = shell(flags, "echo [$LD_PRELOAD]", {"LD_PRELOAD=libm.so.6"});
    EXPECT_EQ(result.out, "[libm.so.6]\n") << flags.front() << result.err;
  }
}

TEST_F(Run, SimulatingPutsTheSimulatedDeviceFirstOnTheLibraryPath) {
  std::string folder = run({"devices", "--path"}).out;
  folder.pop_back();
  const std::string script =
      "echo $LD_LIBRARY_PATH; echo $THERMOCLINE_SIMULATE_DEVICE $THERMOCLINE_SIMULATE_SEED; echo "
      "$NVTX_INJECTION64_PATH";
  const ProcessResult result = shell({"--simulate", "h200", "--seed", "5"}, script, {"LD_LIBRARY_PATH=/usr/lib"});
  EXPECT_EQ(result.out, folder + ":/usr/lib\nh200 5\n" + folder + "/libcuda.so.1\n") << result.err;
}

TEST_F(Run, TheOrderOfTheSimulatedDeviceIsTakenFromTheEnvironmentToo) {
  const std::string script = "echo [$THERMOCLINE_SIMULATE_SEED]";
  EXPECT_EQ(shell({"--simulate", "h200"}, script, {"THERMOCLINE_SIMULATE_SEED=7"}).out, "[7]\n");
  EXPECT_EQ(shell({"--simulate", "h200", "--seed", "5"}, script, {"THERMOCLINE_SIMULATE_SEED=7"}).out, "[5]\n");
  EXPECT_EQ(shell({"--simulate", "h200"}, script, {"THERMOCLINE_SIMULATE_SEED=abc"}).status, 2);
}

TEST_F(Run, WithoutTheLibraryNothingIsPreloaded) {
  const ProcessResult result =
      shell({"--simulate", "h200", "--no-library"}, "echo [$LD_PRELOAD] [$NVTX_INJECTION64_PATH]");
  EXPECT_EQ(result.out, "[] []\n") << result.err;
}

TEST_F(Run, CheckingTurnsTheRaceCheckerOn) {
  EXPECT_EQ(shell({"--simulate", "h200", "--check"}, "echo $THERMOCLINE_SIMULATE_CHECK").out, "1\n");
  EXPECT_EQ(shell({"--audit"}, "echo $THERMOCLINE_AUDIT").out, "true\n");
  EXPECT_EQ(shell({"--simulate", "h200"}, "echo [$THERMOCLINE_SIMULATE_CHECK]").out, "[]\n");
}

TEST_F(Run, AWrongVariableOfTheSimulatedDeviceIsRefusedBeforeTheProgramStarts) {
  const std::string prefix = "THERMOCLINE_SIMULATE_";
  for (const auto& [variable, said] : std::vector<std::pair<std::string, std::string>>{
           {"DEVICES=9", "DEVICES=9 does not hold: expected a number of devices from 1 to 8"},
           {"CORES=0", "CORES=0 does not hold: expected a number of cores from 1 to 1024"},
           {"KERNELS=true", "KERNELS=true does not hold: expected real or made-up"},
           {"DRIVER=queue=x",
            "DRIVER: switches of the driver: queue=x does not hold: expected queue= and a number of operations up to "
            "2^32; 0: no limit"},
           {"FAULTS=none", "FAULTS: the plan of faults none can not be read"},
           {"OTHER=2", "OTHER: unknown variable"},
           {"CORE=2", "CORE: unknown variable; did you mean 'THERMOCLINE_SIMULATE_CORES'?"}}) {
    const ProcessResult result = shell({"--simulate", "h200"}, "echo ran", {prefix + variable});
    EXPECT_EQ(result.status, 2) << variable;
    EXPECT_EQ(result.out, "") << variable;
    EXPECT_EQ(result.err, "thermocline: " + prefix + said + "\n");
  }
  // Without the simulated device nobody reads them, and of flags the values win.
  EXPECT_EQ(shell({}, "echo ran", {prefix + "CORES=0"}).out, "ran\n");
  EXPECT_EQ(shell({"--simulate", "h200", "--seed", "1"}, "echo ran", {prefix + "SEED=x", prefix + "DEVICE=x"}).out,
            "ran\n");
  EXPECT_EQ(shell({"--simulate", "h200"}, "echo ran", {prefix + "DEVICES=2", prefix + "DRIVER=queue=100"}).out,
            "ran\n");
}

TEST_F(Run, APlanOfFaultsTravelsAsTextOrAsAFileThatIsFoundFromAnywhere) {
  const std::string script = "echo \"$THERMOCLINE_SIMULATE_FAULTS\"";
  EXPECT_EQ(shell({"--simulate", "h200", "--faults", "link 0.5; seed 3"}, script).out, "link 0.5; seed 3\n");
  const std::string file = write("plan", "link 0.5\n");
  EXPECT_EQ(shell({"--simulate", "h200", "--faults", std::filesystem::relative(file).string()}, script).out,
            std::filesystem::absolute(std::filesystem::relative(file)).string() + "\n");
}

TEST_F(Run, FlagsOfTheSimulatedDeviceNeedOne) {
  expect_refused({"run", "--seed", "5", "--", "true"}, 2, "--seed needs --simulate DEVICE");
  expect_refused({"run", "--no-library", "--", "true"}, 2, "--no-library needs --simulate DEVICE");
  expect_refused({"run", "--audit", "--budget", "1GiB", "--", "true"}, 2,
                 "--audit evicts nothing, and it is the library that looks: --budget has no place beside it");
  expect_refused({"run", "--audit", "--policy", "none", "--", "true"}, 2,
                 "--audit evicts nothing, and it is the library that looks: --policy has no place beside it");
  expect_refused({"run", "--audit", "--simulate", "h200", "--made-up", "--", "true"}, 2,
                 "--audit finds nothing in made-up kernels, which follow no address: leave out --made-up");
  EXPECT_EQ(shell({"--audit", "--simulate", "h200"}, "true", {"THERMOCLINE_SIMULATE_KERNELS=made-up"}).err,
            "thermocline: --audit finds nothing in made-up kernels, which follow no address: leave out "
            "THERMOCLINE_SIMULATE_KERNELS=made-up\n");
  expect_refused({"run", "--check", "--", "true"}, 2, "--check needs --simulate DEVICE");
  expect_refused({"run", "--faults", "link 2", "--", "true"}, 2, "--faults needs --simulate DEVICE");
  expect_refused({"run", "--simulate", "h20", "--", "true"}, 2,
                 "--simulate: unknown device 'h20'; did you mean 'h200'? ('thermocline devices' lists them)");
}

TEST_F(Run, AMisspeltVariableIsRefused) {
  const ProcessResult result = shell({}, "true", {"THERMOCLINE_BUGDET=1GiB"});
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.err, "thermocline: THERMOCLINE_BUGDET: unknown variable; did you mean 'THERMOCLINE_BUDGET'?\n");
}

}  // namespace
}  // namespace thermocline::test
