// SPDX-License-Identifier: Apache-2.0
// Conventions of the command: results on stdout, readers that close the pipe, percentages, suggestions.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/tool/command_fixture.h"
#include "tests/tool/replayed.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

constexpr const char* kCommand = THERMOCLINE_COMMAND;

TEST_F(Command, WithoutAWordTheHelpIsOnStderrAndTheUsageWasWrong) {
  const ProcessResult result = run({});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("replay"), std::string::npos);
}

TEST_F(Command, ATimelineThatCanNotBeWrittenIsSaidBeforeTheReplayRuns) {
  expect_refused({"replay", kUnet, "--json", "--timeline", "/nowhere/timeline.json"}, 1,
                 "/nowhere/timeline.json: can not be written: No such file or directory");
}

TEST_F(Command, ATimelineIsJson) {
  ASSERT_EQ(run({"replay", kUnet, "--steps", "1", "--timeline", path("timeline.json")}).status, 0);
  std::ifstream file(path("timeline.json"));
  const json events = json::parse(file);
  EXPECT_EQ(events.front()["args"]["name"], "compute");
  EXPECT_TRUE(std::ranges::any_of(events, [](const json& event) { return event["ph"] == "X"; }));
}

TEST_F(Command, ResultsGoToStdoutAndNothingElseIsSaidInAPipe) {
  const std::string device = "reference";
  const std::vector<std::pair<std::vector<std::string>, std::string>> commands = {
      {{"replay", kUnet, "--budget", "80%", "--steps", "4"}, "  a step takes "},
      {{"replay", kUnet, "--budget", "80%", "--steps", "4", "--compare", "lru", "learned"}, "against the first"},
      {{"replay", kUnet, "--budget", "30%", "--steps", "4", "--policy", "none"}, ": out of memory\n"},
      {{"compare", kUnet, kUnet}, "all do the same"},
      {{"bound", kUnet, "--budget", "80%"}, "no swapping is faster than"},
      {{"estimate", kUnet, "--device", device, "--steps", "3"}, "reference"},
      {{"tune", kUnet, "--budget", "90%", "--no-curve", "--steps", "3"}, "least budget"},
      {{"devices"}, "h200 "},
      {{"devices", "h200"}, "memory bandwidth"},
      {{"config", "show"}, "policy = "},
      {{"config", "check", write("good.toml", "policy = \"none\"\n")}, ": good\n"},
      {{"config", "schema"}, "additionalProperties"},
      {{"manual", "man"}, ".SH NAME"},
      {{"help"}, "Usage: thermocline run [OPTIONS] -- PROGRAM [ARGS]\n"},
      {{"help", "run"}, "Usage: thermocline run [OPTIONS] -- PROGRAM [ARGS]\n"},
      {{"version"}, "thermocline "},
      {{"-V"}, "thermocline "}};
  for (const auto& [arguments, part] : commands) {
    const ProcessResult result = run(arguments);
    EXPECT_NE(result.out.find(part), std::string::npos) << arguments.front() << ": " << result.out;
    EXPECT_EQ(result.err, "") << arguments.front();
  }
  // A missing device is a notice in addition to the findings.
  const ProcessResult doctor = run({"doctor"}, {"LD_LIBRARY_PATH=/nowhere"});
  EXPECT_NE(doctor.out.find("locked memory"), std::string::npos) << doctor.out;
  EXPECT_EQ(doctor.err.find("locked memory"), std::string::npos) << doctor.err;
}

TEST_F(Command, AReaderThatHasGoneEndsItQuietlyAndFilesAreWrittenAllTheSame) {
  const auto without_reader = [](const std::string& arguments) {
    return run_process(
        {"bash", "-c", "exec 3> >(exit 0); wait $!; " + std::string(kCommand) + " " + arguments + " >&3; echo $?"});
  };
  for (const char* const command : {"devices", "manual man", "config schema"}) {
    const ProcessResult result = without_reader(command);
    EXPECT_EQ(result.out, "141\n") << command;
    EXPECT_EQ(result.err, "") << command;
  }
  EXPECT_EQ(without_reader("convert " + kUnet + " -").err, "");
  const ProcessResult tuned =
      without_reader("tune " + kUnet + " --budget 90% --no-curve --steps 3 -o " + path("tuned.toml"));
  EXPECT_EQ(tuned.out, "141\n") << tuned.err;
  EXPECT_EQ(run({"config", "check", path("tuned.toml")}).status, 0);
}

TEST_F(Command, APercentageSaysOfWhatItIsAndWhatWasTaken) {
  const auto first_line = [this](const std::string& budget) {
    const std::string out = run({"replay", kUnet, "--budget", budget, "--steps", "1", "--no-check"}).out;
    return out.substr(out.find(", budget "), out.find('\n') - out.find(", budget "));
  };
  const json whole = replay_json(run({"replay", kUnet, "--steps", "1", "--no-check", "--json"}));
  EXPECT_EQ(whole["budget"], "100%device");
  EXPECT_EQ(whole["budget_bytes"], std::uint64_t{64} << 30);
  EXPECT_EQ(first_line("80%"), first_line("80%peak"));
  EXPECT_NE(first_line("80%").find(" = 80% of the peak "), std::string::npos) << first_line("80%");
  EXPECT_NE(first_line("50%device").find(" 32.00 GiB = 50% of the device's 64.00 GiB, for the peak "),
            std::string::npos)
      << first_line("50%device");
  EXPECT_NE(first_line("5G").find(" 5.00 GiB for the peak "), std::string::npos) << first_line("5G");
  // A percentage in a settings file is of the device's memory, also in a replay.
  const std::string file = write("half.toml", "budget = \"50%\"\n");
  const json of_file = replay_json(run({"replay", kUnet, "--config", file, "--steps", "1", "--no-check", "--json"}));
  EXPECT_EQ(of_file["budget"], "50%device");
  EXPECT_EQ(of_file["budget_bytes"], std::uint64_t{32} << 30);
}

TEST_F(Command, ABareNumberBelowAPageIsRemarkedOn) {
  const ProcessResult result = run({"bound", kUnet, "--budget", "12"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err,
            "thermocline: note: --budget: 12 is a number of bytes, and less than a page (2MiB); did you mean "
            "'12GiB'?\n");
  EXPECT_EQ(run({"bound", kUnet, "--budget", "12B"}).err, "");
  // The same is said of a settings file. It is `run` that remarks on its flag; the library gets a unit.
  const std::string file = write("few.toml", "budget = 12\n");
  EXPECT_EQ(run({"config", "check", file}).err,
            "thermocline: note: " + file +
                ":1:1: budget: 12 is a number of bytes, and less than a page (2MiB); did you mean '12GiB'?\n");
  EXPECT_EQ(run({"run", "--budget", "12", "--", "sh", "-c", "echo $THERMOCLINE_BUDGET"}).out, "12B\n");
}

TEST_F(Command, AReplayIsLongEnoughForAPlanOrSaysThatThereWasNone) {
  const std::string planned = run({"replay", kResnet, "--budget", "60%peak", "--no-check"}).out;
  EXPECT_NE(planned.find("  the plan was in force in the last "), std::string::npos) << planned;
  const std::string too_short = run({"replay", kResnet, "--budget", "60%peak", "--no-check", "--steps", "2"}).out;
  EXPECT_NE(too_short.find("  no plan was in force: 2 steps "), std::string::npos) << too_short;
  const std::string fits = run({"replay", kResnet, "--no-check", "--steps", "2"}).out;
  EXPECT_EQ(fits.find("no plan was in force"), std::string::npos) << fits;
}

TEST_F(Command, AProgramWithoutDashesIsToldWhereItGoes) {
  expect_refused({"run", "--budget", "60%", "python", "train.py", "--lr", "3"}, 2,
                 "the program goes behind '--': thermocline run --budget 60% -- python train.py --lr 3");
  expect_refused({"record", "-o", "x", "./a.out"}, 2,
                 "the program goes behind '--': thermocline record -o x -- ./a.out");
}

TEST_F(Command, WrongUsageNamesAHelpThatExists) {
  const std::string help = "thermocline config check --help";
  expect_refused({"config", "check"}, 2, "FILE is required ('" + help + "' shows the usage)");
  EXPECT_EQ(run({"config", "check", "--help"}).status, 0);
  const std::string of_config = " ('thermocline config --help' shows the usage)";
  expect_refused({"config"}, 2, "a command is missing; known are show, check, schema" + of_config);
  expect_refused({"config", "shwo"}, 2,
                 "unknown command 'shwo'; did you mean 'show'?; known are show, check, schema" + of_config);
  expect_refused({"--verison"}, 2,
                 "unknown flag '--verison'; did you mean '--version'? ('thermocline --help' shows the usage)");
  expect_refused({"run", "--host-limit", "3GiB", "--", "true"}, 2,
                 "unknown flag '--host-limit'; that is a setting: write THERMOCLINE_HOST_LIMIT=VALUE in front of the "
                 "command, or 'host_limit' in the settings file ('thermocline run --help' shows the usage)");
  const std::string of_replay = " ('thermocline replay --help' shows the usage)";
  expect_refused({"replay", kUnet, "--steps"}, 2, "--steps needs a value" + of_replay);
  expect_refused({"replay", kUnet, "--steps", "1", "--steps", "2"}, 2, "--steps is given twice" + of_replay);
  expect_refused({"replay", kUnet, "--compare", "lru"}, 2, "--compare needs 2 values or more" + of_replay);
}

TEST_F(Command, WithClosedStreamsNothingThatIsPrintedGoesIntoAFile) {
  const std::string command = "'" + std::string(kCommand) + "' ";
  const auto bash = [](const std::string& script) { return run_process({"bash", "-c", script}, {}); };
  // Says that nothing is recomputed while the page is open.
  const std::string settings = write("recompute.toml", "recompute = \"auto\"\n");
  const std::string page = path("page.html");
  EXPECT_EQ(
      bash(command + "report '" + kUnet + "' --steps 1 --config '" + settings + "' -o '" + page + "' 2>&-").status, 0);
  EXPECT_TRUE(read(page).starts_with("<!doctype html>")) << read(page).substr(0, 100);
  const ProcessResult closed = bash(command + "devices >&-");
  EXPECT_EQ(closed.status, 1);
  EXPECT_EQ(closed.err, "thermocline: stdout: can not be written: Bad file descriptor\n");
  const std::string program = "run --simulate reference -- bash -c '[[ -e /proc/self/fd/1 ]]' >&-";
  EXPECT_EQ(bash(command + program).status, 1) << "the program has the streams that the command was given";
}

TEST_F(Command, DevicesArePartlyNamedAndPoliciesAllKnown) {
  expect_refused({"replay", kUnet, "--device", "A100"}, 2,
                 "--device: unknown device 'A100'; did you mean 'a100-40g' or 'a100-80g'? ('thermocline devices' "
                 "lists them)");
  expect_refused({"replay", kUnet, "--device", "4090"}, 2,
                 "--device: unknown device '4090'; did you mean 'rtx-4090'? ('thermocline devices' lists them)");
  EXPECT_EQ(run({"devices", "H200"}).status, 0);
  expect_refused({"devices", "h20"}, 2,
                 "devices: unknown device 'h20'; did you mean 'h200'? ('thermocline devices' lists them)");
  expect_refused({"devices", "nosuch"}, 2, "devices: unknown device 'nosuch' ('thermocline devices' lists them)");
  const ProcessResult unknown = run({"replay", kUnet, "--policy", "lerned"});
  EXPECT_EQ(unknown.status, 2);
  // The policies of the table, whichever it has, then the names of published plans.
  EXPECT_TRUE(unknown.err.starts_with("thermocline: --policy: 'lerned' is no policy; known are none, ")) << unknown.err;
  EXPECT_TRUE(unknown.err.ends_with(
      ", joint, recompute, swap, sqrt, checkpoint-all, checkmate, gruslys; did you mean 'learned'?\n"))
      << unknown.err;
  EXPECT_TRUE(run({"replay", kUnet, "--compare", "nosuch", "lru"})
                  .err.starts_with("thermocline: --compare: 'nosuch' is no policy; known are none, "));
}

TEST_F(Command, EveryFigureOfEveryDeviceHasASource) {
  const json all = json::parse(run({"devices", "--json"}).out)["devices"];
  for (const char* const name : {"t4", "l4", "l40s", "a10", "rtx-3090", "rtx-5090", "a100-80g", "b200", "gh200"}) {
    const auto found = std::ranges::find_if(all, [name](const json& device) { return device["name"] == name; });
    ASSERT_NE(found, all.end()) << name;
  }
  for (const json& device : all) {
    for (const json& source : device["sources"]) EXPECT_NE(source, "") << device["name"];
  }
  const std::string table = run({"devices"}).out;
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(table, '\n')), all.size() + 2) << table;
  // ECC takes a sixteenth of GDDR6; the table shows half GiBs.
  EXPECT_NE(table.find("\nt4             15 GiB "), std::string::npos) << table;
  EXPECT_NE(table.find("\na10          22.5 GiB "), std::string::npos) << table;
}

TEST_F(Command, TheJointBoundIsGivenWhereItIsAskedFor) {
  const json row =
      json::parse(run({"bound", kUnet, "--budget", "50%", "--slots", "4", "--joint", "--json"}).out)["rows"][0];
  EXPECT_GE(row["joint_bound_ms"], 305.15);
  EXPECT_LE(row["joint_bound_ms"].get<double>(), row["bound_ms"].get<double>() * (1 + 1e-3));
  EXPECT_FALSE(
      json::parse(run({"bound", kUnet, "--budget", "50%", "--json"}).out)["rows"][0].contains("joint_bound_ms"));
  const json out = replay_json(run({"replay", kUnet, "--budget", "60%", "--steps", "6", "--joint-bound", "--json"}));
  EXPECT_GE(out["joint_bound_ms"], 305.15);
  EXPECT_LE(out["joint_bound_ms"], out["steady_step_ms"]);
}

}  // namespace
}  // namespace thermocline::test
