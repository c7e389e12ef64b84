// SPDX-License-Identifier: Apache-2.0
// The command as seen from outside: exit statuses, what goes to stdout and to stderr, messages about wrong input.
#include <nlohmann/json.hpp>
#include <tuple>

#include "tests/tool/command_fixture.h"
#include "tests/tool/replayed.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

constexpr const char* kCommand = THERMOCLINE_COMMAND;

TEST_F(Command, HelpGoesToStdoutAndNamesOnlyWhatExists) {
  const ProcessResult result = run({"--help"});
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.out.find("replay"), std::string::npos);
  EXPECT_NE(result.out.find("  report"), std::string::npos);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(run({"replay", "--help"}).status, 0);
  EXPECT_EQ(run({"--version"}).status, 0);
}

TEST_F(Command, AnUnknownWordIsNoProgramAndTheNearestCommandIsSuggested) {
  expect_refused({"repaly", "x"}, 2,
                 "unknown command 'repaly'; did you mean 'replay'? ('thermocline --help' lists them)");
  expect_refused({"hlp"}, 2, "unknown command 'hlp'; did you mean 'help'? ('thermocline --help' lists them)");
  expect_refused({"vresion"}, 2,
                 "unknown command 'vresion'; did you mean 'version'? ('thermocline --help' lists them)");
  expect_refused({"no-such-word"}, 2, "unknown command 'no-such-word' ('thermocline --help' lists them)");
}

TEST_F(Command, AnUnknownFlagIsNamedWithTheNearestOne) {
  expect_refused({"replay", kUnet, "--bugdet", "60%"}, 2,
                 "unknown flag '--bugdet'; did you mean '--budget'? ('thermocline replay --help' shows the usage)");
}

TEST_F(Command, ABadBudgetIsRefusedBeforeAnythingRuns) {
  expect_refused({"replay", kUnet, "--budget", "12GX"}, 2,
                 "--budget: '12GX' has the unknown unit 'GX'; units are B, KiB, MiB, GiB, TiB and %");
  expect_refused({"run", "--budget", "-1", "--", "true"}, 2, "--budget: '-1' is negative");
  expect_refused({"run", "--budget", "", "--", "true"}, 2,
                 "--budget: the value is empty; write for example 12GiB, 512MiB, 60%, shared");
  expect_refused({"run", "--budget", "140%", "--", "true"}, 2, "--budget: '140%' is more than 100%");
  expect_refused({"run", "--budget", "140%device", "--", "true"}, 2, "--budget: '140%' is more than 100%");
  expect_refused({"run", "--budget", "60%peak", "--", "true"}, 2,
                 "--budget: '60%peak' is of a recorded program's peak, which is not known here; 60% is of the device");
  expect_refused({"replay", kUnet, "--budget", "140%device"}, 2, "--budget: '140%' is more than 100%");
  expect_refused({"estimate", kUnet, "--budget", "140%"}, 2, "--budget: '140%' is more than 100%");
  expect_refused({"bound", kUnet, "--budget", "1001%"}, 2, "--budget: '1001%' is more than 1000%");
  expect_refused({"bound", kUnet, "--budget", "0"}, 2, "--budget: '0' is nothing at all; it must be above zero");
}

TEST_F(Command, AnUnknownPolicyOrDeviceIsRefused) {
  const ProcessResult policy = run({"run", "--policy", "reactiv", "--", "true"});
  EXPECT_EQ(policy.status, 2);
  EXPECT_NE(policy.err.find("did you mean 'reactive'?"), std::string::npos) << policy.err;
  expect_refused({"replay", kUnet, "--device", "referense"}, 2,
                 "--device: unknown device 'referense'; did you mean 'reference'? ('thermocline devices' lists them)");
  expect_refused({"replay", kUnet, "--safety", "trustin"}, 2,
                 "--safety: 'trustin' is no safety; known are strict, trusting; did you mean 'trusting'?");
}

TEST_F(Command, TracesThatDoTheSameAreToldFromThoseThatDoNot) {
  const json same = json::parse(run({"compare", kUnet, kUnet, "--json"}).out, nullptr, false);
  EXPECT_EQ(same["schema"], "thermocline-compare/1");
  EXPECT_EQ(same["all"]["same"], true);
  EXPECT_EQ(same["all"]["peak_live_bytes"], 2 * same["traces"][0]["peak_live_bytes"].get<std::uint64_t>());
  const json other = json::parse(run({"compare", kUnet, kResnet, "--json"}).out, nullptr, false);
  EXPECT_EQ(other["all"]["same"], false);
  EXPECT_TRUE(other["traces"][0]["differs_at"].is_null());
  EXPECT_EQ(other["traces"][1]["differs_at"], 0);
  EXPECT_EQ(other["all"]["slowest_step_ms"],
            std::max(other["traces"][0]["compute_step_ms"], other["traces"][1]["compute_step_ms"]));
  const ProcessResult text = run({"compare", kUnet, kUnet});
  EXPECT_NE(text.out.find("  all do the same\n"), std::string::npos) << text.out;
  EXPECT_EQ(text.err, "");
  EXPECT_EQ(run({"compare", kUnet, path("none.gz")}).status, 3);
}

TEST_F(Command, ATraceOfOneRankOfManyHasItsNumber) {
  const auto refused_name = [this](const std::string& asked, std::vector<std::string> environment) {
    const std::string text = run({"record", "-o", path("none/" + asked), "--", "true"}, std::move(environment)).err;
    const std::size_t begin = text.rfind('/'), end = text.find(": can not be written");
    return end == std::string::npos ? text : text.substr(begin + 1, end - begin - 1);
  };
  const std::vector<std::string> third = {"RANK=3", "WORLD_SIZE=4"};
  EXPECT_EQ(refused_name("step.jsonl.gz", third), "step.rank3.jsonl.gz");
  EXPECT_EQ(refused_name("step.trace", third), "step.rank3.trace");
  EXPECT_EQ(refused_name("step", third), "step.rank3");
  EXPECT_EQ(refused_name("%r-of-%r.trace", third), "3-of-3.trace");
  EXPECT_EQ(refused_name("step.trace", {"RANK=3"}), "step.trace");
}

TEST_F(Command, WhatCanNotBeRecordedIsRefusedBeforeTheProgramRuns) {
  expect_refused({"record", "-o", path("none/x.gz"), "--", "access", path("ran")}, 3,
                 path("none/x.gz") + ": can not be written: No such file or directory");
  expect_refused({"record", "-o", path(""), "--", "access", path("ran")}, 3,
                 path("") + ": can not be written: Is a directory");
  expect_refused({"record", "-o", path("x.gz")}, 2,
                 "record needs a program behind '--': thermocline record [OPTIONS] -- PROGRAM [ARGS]");
  expect_refused({"record", "-o", path("x.gz"), "--from", kUnet}, 3,
                 kUnet + ": not a recording of this version: its first line is not 'thermocline-record/2'");
  EXPECT_FALSE(std::filesystem::exists(path("ran")));
  EXPECT_FALSE(std::filesystem::exists(path("x.gz")));
}

TEST_F(Command, ALimitIsOfARecordingAndASize) {
  expect_refused({"run", "--limit", "2MiB", "--", "true"}, 2, "--limit is of what is recorded: it needs --trace FILE");
  expect_refused({"record", "-o", path("x"), "--limit", "10%", "--", "true"}, 2,
                 "--limit: '10%' is a percentage; a size in bytes, KiB, MiB or GiB is needed");
  expect_refused({"record", "-o", path("x"), "--limit", "1000K", "--", "true"}, 2,
                 "--limit: expected a size of 1MiB or more, not '1000K'");
}

TEST_F(Command, ATraceIsConvertedAndReplayedInEveryForm) {
  const ProcessResult packed = run({"convert", kUnet, path("p")});
  EXPECT_EQ(packed.status, 0);
  EXPECT_EQ(packed.out, "");
  EXPECT_TRUE(packed.err.starts_with("thermocline: wrote " + path("p") + ": ")) << packed.err;
  const ProcessResult lines = run({"convert", path("p"), "-"});
  EXPECT_EQ(lines.status, 0);
  EXPECT_EQ(lines.err, "");
  EXPECT_TRUE(lines.out.starts_with("{\"schema\":\"thermocline-trace/1\"")) << lines.out.substr(0, 80);
  const auto checksum = [&](const std::string& trace) {
    return replay_json(run({"replay", trace, "--policy", "none", "--steps", "2", "--no-check", "--json"}))["checksum"];
  };
  const json expected = checksum(kUnet);
  EXPECT_EQ(checksum(path("p")), expected);
  EXPECT_EQ(checksum(write("l.jsonl", lines.out)), expected);
  expect_refused({"convert", path("absent"), path("q")}, 3,
                 path("absent") + ": can not be opened: No such file or directory");
  expect_refused({"convert", kUnet, path("none/q")}, 1,
                 path("none/q") + ": can not be written: No such file or directory");
  EXPECT_FALSE(std::filesystem::exists(path("q")));
  EXPECT_EQ(run({"convert", kUnet}).status, 2);
}

TEST_F(Command, AMissingTraceIsBadInput) {
  for (const char* command : {"replay", "bound", "tune"}) {
    expect_refused({command, "/nowhere/x.gz"}, 3, "/nowhere/x.gz: can not be opened: No such file or directory");
  }
}

TEST_F(Command, ATruncatedTraceIsBadInputNamedWithItsLine) {
  std::ifstream file(kUnet, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  const std::string cut = write("cut.jsonl.gz", whole.substr(0, whole.size() / 2));
  const ProcessResult result = run({"replay", cut, "--json"});
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(result.err.starts_with("thermocline: " + cut + ":")) << result.err;
  EXPECT_NE(result.err.find("truncated"), std::string::npos) << result.err;
}

TEST_F(Command, AnotherSchemaIsBadInput) {
  const std::string other = write("other", "{\"schema\":\"thermocline-trace/9\"}\n");
  expect_refused({"replay", other}, 3,
                 other + ":1: unsupported schema \"thermocline-trace/9\"; this version reads \"thermocline-trace/1\"");
}

TEST_F(Command, AReplayThatRunsOutOfMemoryIsAResult) {
  const ProcessResult result = run({"replay", kUnet, "--budget", "30%", "--policy", "none", "--json"});
  EXPECT_EQ(result.status, 1);
  const json out = replay_json(result);
  EXPECT_EQ(out["outcome"], "out_of_memory");
  EXPECT_TRUE(out["steady_step_ms"].is_null());
  EXPECT_LE(out["peak_device_bytes"], out["budget_bytes"]);
}

TEST_F(Command, AReplayOnMoreStreamsHasTheSameResultsAndNoBound) {
  const std::vector<std::string> base = {"replay", kUnet, "--budget", "70%", "--steps", "4", "--json"};
  const json one = replay_json(run(base));
  EXPECT_EQ(one["streams"], 1);
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--streams", "3"}, {"--streams", "4", "--seed", "2", "--policy", "reactive"}}) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const json out = replay_json(run(arguments));
    EXPECT_EQ(out["streams"], std::stoi(flags[1]));
    EXPECT_EQ(out["outcome"], "ok");
    EXPECT_EQ(out["races"], 0);
    EXPECT_EQ(out["checksum"], one["checksum"]);
    EXPECT_LE(out["peak_device_bytes"], out["budget_bytes"]);
    EXPECT_TRUE(out["bound_ms"].is_null());
  }
  EXPECT_FALSE(one["bound_ms"].is_null());
}

TEST_F(Command, AReplayPrintsOneObjectWithEveryField) {
  const json out = replay_json(
      run({"replay", kResnet, "--device", "reference", "--budget", "60%", "--policy", "reactive", "--json"}));
  EXPECT_EQ(out["schema"], "thermocline-replay/1");
  EXPECT_EQ(out["outcome"], "ok");
  EXPECT_EQ(out["peak_live_bytes"], 5762141840);
  EXPECT_EQ(out["budget_bytes"], 3457285104);
  EXPECT_LE(out["peak_device_bytes"], out["budget_bytes"]);
  EXPECT_GT(out["peak_host_bytes"], 0);
  ASSERT_EQ(out["steps"].size(), 12u) << "the file has four, which are too few for a plan";
  EXPECT_EQ(out["budget"], "60%peak");
  for (const char* field : {"index", "ms", "compute_ms", "evicted_bytes", "restored_bytes", "maps", "unmaps"}) {
    EXPECT_TRUE(out["steps"][3].contains(field)) << field;
  }
  for (const char* field : {"trace", "device", "policy", "learned_after_steps", "races", "events_per_second"}) {
    EXPECT_TRUE(out.contains(field)) << field;
  }
  for (const auto& [what, units, bytes] : {std::tuple("evictions_by_reason", "evictions", "evicted_bytes"),
                                           std::tuple("restores_by_reason", "restores", "restored_bytes")}) {
    std::uint64_t sums[2] = {};
    for (const json& count : out[what]) {
      sums[0] += count["units"].get<std::uint64_t>();
      sums[1] += count["copied_bytes"].get<std::uint64_t>();
    }
    EXPECT_TRUE(sums[0] == out[units] && sums[1] == out[bytes]) << what << ' ' << out[what];
  }
  EXPECT_GT(out["evictions_by_reason"]["write_behind"]["units"], 0);
  EXPECT_EQ(out["races"], 0);
  EXPECT_EQ(out["race_check"], true);
  EXPECT_GE(out["steady_step_ms"], out["bound_ms"]);
  EXPECT_GE(out["bound_ms"], out["compute_step_ms"]);
  const json unlimited = replay_json(run({"replay", kResnet, "--policy", "none", "--json"}));
  EXPECT_EQ(out["checksum"], unlimited["checksum"]);
  EXPECT_EQ(out["checksum"].get<std::string>().size(), 16u);
}

TEST_F(Command, AReplayOfMoreStepsThanTheFileHasRepeatsTheLast) {
  EXPECT_EQ(replay_json(run({"replay", kUnet, "--steps", "7", "--json"}))["steps"].size(), 7u);
  EXPECT_EQ(replay_json(run({"replay", kUnet, "--steps", "2", "--json"}))["steps"].size(), 2u);
}

TEST_F(Command, ABoundIsGivenForEveryBudget) {
  const ProcessResult result = run({"bound", kResnet, "--device", "reference", "--budget", "60%,40%", "5%", "--json"});
  EXPECT_EQ(result.status, 0) << result.err;
  const json out = json::parse(result.out);
  EXPECT_EQ(out["schema"], "thermocline-bound/1");
  ASSERT_EQ(out["rows"].size(), 3u);
  const json& row = out["rows"][0];
  EXPECT_EQ(row["budget_bytes"], 3457285104);
  EXPECT_NEAR(row["volume_ms"], 46.097, 0.046);
  EXPECT_NEAR(row["pinch_ms"], 84.0075, 0.084);
  EXPECT_GE(row["slotted_ms"], 90.01);
  EXPECT_GE(row["bound_ms"], 90.01);
  EXPECT_GT(out["rows"][1]["bound_ms"], row["bound_ms"]);
  EXPECT_EQ(out["rows"][2]["feasible"], false);
  EXPECT_FALSE(out["rows"][2].contains("bound_ms"));
}

TEST_F(Command, ABoundCanCountWholePages) {
  const json exact = json::parse(run({"bound", kResnet, "--budget", "60%", "--json"}).out)["rows"][0];
  const json whole =
      json::parse(run({"bound", kResnet, "--budget", "60%", "--pages", "2MiB", "--json"}).out)["rows"][0];
  EXPECT_EQ(whole["budget_bytes"], exact["budget_bytes"]) << "of the peak as it was asked for";
  EXPECT_GT(whole["bound_ms"], exact["bound_ms"]);
  EXPECT_LT(whole["bound_ms"].get<double>(), exact["bound_ms"].get<double>() * 1.1);
}

TEST_F(Command, AReplayCarriesTheBoundAndIsNotFaster) {
  const json bound = json::parse(run({"bound", kResnet, "--budget", "60%", "--json"}).out)["rows"][0];
  const json out = replay_json(run({"replay", kResnet, "--budget", "60%", "--steps", "6", "--json"}));
  EXPECT_EQ(out["bound_ms"], bound["bound_ms"]);
  EXPECT_LE(out["bound_ms"], out["steady_step_ms"]);
}

TEST_F(Command, PlainLruIsThereForComparisonAndComputesTheSame) {
  const auto replay_with = [&](const char* policy) {
    return replay_json(
        run({"replay", kResnet, "--budget", "60%", "--policy", policy, "--steps", "4", "--no-check", "--json"}));
  };
  const json lru = replay_with("lru");
  const json reactive = replay_with("reactive");
  EXPECT_EQ(lru["policy"], "lru");
  EXPECT_EQ(lru["checksum"], reactive["checksum"]);
  EXPECT_GT(lru["evicted_bytes"], 0);
  EXPECT_NE(lru["steady_step_ms"], reactive["steady_step_ms"]);
  EXPECT_EQ(run({"run", "--policy", "lru", "--", "true"}).status, 2);
}

TEST_F(Command, PoliciesAndSettingsFilesAreReplayedSideBySide) {
  const std::string file = write("early.toml", "policy = \"reactive\"\nlow_water = \"20%\"\nbudget = \"5GiB\"\n");
  const ProcessResult result =
      run({"replay", kUnet, "--budget", "60%", "--no-check", "--json", "--compare", "learned", "lru", file});
  EXPECT_EQ(result.status, 0) << result.err;
  const json out = json::parse(result.out);
  EXPECT_EQ(out["schema"], "thermocline-replay-compare/1");
  ASSERT_EQ(out["runs"].size(), 3u);
  EXPECT_EQ(out["left_out"], json::array());
  const json alone = replay_json(run({"replay", kUnet, "--budget", "60%", "--no-check", "--json"}));
  EXPECT_EQ(out["runs"][0]["steady_step_ms"], alone["steady_step_ms"]);
  EXPECT_EQ(out["runs"][1]["policy"], "lru");
  EXPECT_EQ(out["runs"][2]["policy"], "reactive");
  for (const json& each : out["runs"]) {
    EXPECT_EQ(each["checksum"], alone["checksum"]);
    EXPECT_EQ(each["budget_bytes"], alone["budget_bytes"]);  // the flag overrides the file
  }
  const ProcessResult told = run({"replay", kUnet, "--budget", "60%", "--compare", "learned", "none"});
  EXPECT_EQ(told.status, 1);
  EXPECT_EQ(told.err, "");
  EXPECT_NE(told.out.find("out of memory"), std::string::npos) << told.out;
  EXPECT_EQ(run({"replay", kUnet, "--compare", "learned"}).status, 2);
  EXPECT_EQ(run({"replay", kUnet, "--compare", "learned", "lerned"}).status, 2);
  EXPECT_EQ(run({"replay", kUnet, "--compare", "learned", path("absent.toml")}).status, 3);
}

TEST_F(Command, TheManualAndTheCompletionsKnowEveryCommandAndFlag) {
  for (const char* kind : {"man", "bash", "zsh", "fish"}) {
    const ProcessResult result = run({"manual", kind});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    for (const char* word : {"replay", "tune", "report", "doctor", "schema", "compare", "budget"}) {
      EXPECT_NE(result.out.find(word), std::string::npos) << kind << ": " << word;
    }
  }
  const std::string bash = write("completion.bash", run({"manual", "bash"}).out);
  const ProcessResult completed =
      run_process({"/bin/bash", "-c",
                   "source '" + bash +
                       "'; COMP_WORDS=(thermocline rep); COMP_CWORD=1; _thermocline; echo ${COMPREPLY[@]}; "
                       "COMP_WORDS=(thermocline tune x --al); COMP_CWORD=3; _thermocline; echo ${COMPREPLY[@]}; "
                       "COMP_WORDS=(thermocline run --simulate a100); COMP_CWORD=3; _thermocline; echo "
                       "${COMPREPLY[@]}; "
                       "COMP_WORDS=(thermocline devices rtx-5); COMP_CWORD=2; _thermocline; echo ${COMPREPLY[@]}; "
                       "COMP_WORDS=(thermocline help rep); COMP_CWORD=2; _thermocline; echo ${COMPREPLY[@]}; "
                       "COMP_WORDS=(thermocline config s); COMP_CWORD=2; _thermocline; echo ${COMPREPLY[@]}; "
                       "COMP_WORDS=(thermocline config show --so); COMP_CWORD=3; _thermocline; echo ${COMPREPLY[@]}; "
                       "cd '" +
                       folder_.string() +
                       "'; COMP_WORDS=(thermocline config check c); COMP_CWORD=3; _thermocline; echo ${COMPREPLY[@]}; "
                       "COMP_WORDS=(thermocline plan --plans s); COMP_CWORD=3; _thermocline; echo ${COMPREPLY[@]}; "
                       "COMP_WORDS=(thermocline replay x --compare joint c); COMP_CWORD=5; _thermocline; echo "
                       "${COMPREPLY[@]}"},
                  {});
  EXPECT_EQ(completed.out,
            "replay report\n--allow-trusting\na100-40g a100-80g\nrtx-5090\nreplay report\nshow schema\n--sources\n"
            "completion.bash\nswap sqrt\ncompletion.bash checkpoint-all checkmate\n")
      << completed.err;
  const std::string man = run({"manual", "man"}).out;
  for (const char* section : {".SH EXAMPLES", ".SH ENVIRONMENT", ".SH \"SEE ALSO\"", "[OPTIONS] \\-\\- PROGRAM"}) {
    EXPECT_NE(man.find(section), std::string::npos) << section;
  }
  expect_refused({"manual", "tcsh"}, 2, "manual: unknown kind 'tcsh'; known are man, bash, zsh, fish");
}

TEST_F(Command, BadBoundsAreRefused) {
  expect_refused({"bound", kResnet, "--device", "h20"}, 2,
                 "--device: unknown device 'h20'; did you mean 'h200'? ('thermocline devices' lists them)");
  expect_refused({"bound", kResnet, "--pages", "5%"}, 2,
                 "--pages: '5%' is a percentage; a size in bytes, KiB, MiB or GiB is needed");
  EXPECT_EQ(run({"bound", kResnet, "--pages", "0"}).status, 2);
  EXPECT_EQ(run({"bound", kResnet, "--budget", "60%,much"}).status, 2);
  EXPECT_EQ(run({"bound"}).status, 2);
  EXPECT_EQ(run({"bound", path("absent")}).status, 3);
  EXPECT_EQ(run({"bound", write("text", "no trace\n")}).status, 3);
}

TEST_F(Command, AnEstimateSaysOnWhichDevicesATraceFitsAndHowSlowItIs) {
  const ProcessResult result = run({"estimate", kUnet, "--device", "a100-40g,m40-12g", "--budget", "5GiB", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json out = json::parse(result.out);
  EXPECT_EQ(out["schema"], "thermocline-estimate/1");
  const json& order = out["execution_order"];
  EXPECT_LE(order["reordered_peak_bytes"], order["freed_at_last_use_peak_bytes"]);
  EXPECT_LT(order["freed_at_last_use_peak_bytes"], order["recorded_peak_bytes"]);
  EXPECT_EQ(order["recorded_peak_bytes"], out["peak_live_bytes"]);
  EXPECT_EQ(out["times_were_measured"], false);
  ASSERT_EQ(out["devices"].size(), 2u);
  for (const json& device : out["devices"]) {
    EXPECT_EQ(device["fit"], "swapped");
    EXPECT_GT(device["evicted_bytes_per_step"], 0);
    EXPECT_LE(device["bound_ms"].get<double>(), device["steady_step_ms"].get<double>() * (1 + 1e-6));
    EXPECT_NEAR(device["slowdown"].get<double>() * device["compute_step_ms"].get<double>(),
                device["steady_step_ms"].get<double>(), 1e-9);
    for (const json& figure : device["figures"]) EXPECT_NE(figure["source"], "");
  }
  EXPECT_GT(out["devices"][1]["compute_step_ms"], out["devices"][0]["compute_step_ms"]);
}

TEST_F(Command, AnEstimateTellsWholeFromNotAtAll) {
  const auto fit_in = [&](const char* budget) {
    const ProcessResult result =
        run({"estimate", kUnet, "--device", "a100-40g", "--steps", "3", "--budget", budget, "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out)["devices"][0];
  };
  const json whole = fit_in("100%");
  EXPECT_EQ(whole["fit"], "whole");
  EXPECT_NEAR(whole["slowdown"], 1.0, 1e-3);
  const json none = fit_in("2GiB");
  EXPECT_EQ(none["fit"], "no");
  EXPECT_TRUE(none["steady_step_ms"].is_null());
}

TEST_F(Command, BadEstimatesAreRefused) {
  expect_refused({"estimate", kUnet, "--device", "h20"}, 2,
                 "--device: unknown device 'h20'; did you mean 'h200'? ('thermocline devices' lists them)");
  EXPECT_EQ(run({"estimate", kUnet, "--budget", "much"}).status, 2);
  EXPECT_EQ(run({"estimate", path("absent")}).status, 3);
}

TEST_F(Command, WhereStepsDifferThereIsNoBoundOfThem) {
  const json out =
      replay_json(run({"replay", kTraces + "/nmt_varlen_b128.jsonl.gz", "--policy", "none", "--no-check", "--json"}));
  EXPECT_TRUE(out["bound_ms"].is_null());
}

TEST_F(Command, SettingsAreShownWithTheirSources) {
  const std::string file = write("mine.toml", "budget = \"60%\"\n");
  const ProcessResult result =
      run({"config", "show", "--sources", "--json"}, {"THERMOCLINE_CONFIG=" + file, "THERMOCLINE_STATS=line"});
  EXPECT_EQ(result.status, 0) << result.err;
  const json settings = json::parse(result.out)["settings"];
  EXPECT_EQ(settings["budget"]["value"], "60%");
  EXPECT_EQ(settings["budget"]["source"], file + ":1");
  EXPECT_EQ(settings["stats"]["value"], "line");
  EXPECT_EQ(settings["stats"]["source"], "THERMOCLINE_STATS");
  EXPECT_EQ(settings["policy"]["source"], "default");
}

TEST_F(Command, WhatConfigShowPrintsIsASettingsFileOfTheSameEffect) {
  const ProcessResult shown =
      run({"config", "show", "--sources"}, {"THERMOCLINE_BUDGET=1.5GiB", "THERMOCLINE_LOW_WATER=62.5%"});
  const std::string file = write("shown.toml", shown.out);
  EXPECT_EQ(run({"config", "check", file}).status, 0);
  EXPECT_EQ(run({"config", "show"}, {"THERMOCLINE_CONFIG=" + file}).out,
            run({"config", "show"}, {"THERMOCLINE_BUDGET=1.5GiB", "THERMOCLINE_LOW_WATER=62.5%"}).out);
}

TEST_F(Command, ASettingsFileIsCheckedWithPlaceAndSuggestion) {
  const std::string file = write("bad.toml", "stats = true\nbugdet = \"1GiB\"\n");
  expect_refused({"config", "check", file}, 3, file + ":2:1: unknown key 'bugdet'; did you mean 'budget'?");
  expect_refused({"run", "--config", file, "--", "true"}, 3,
                 file + ":2:1: unknown key 'bugdet'; did you mean 'budget'?");
  expect_refused({"replay", kUnet, "--config", file}, 3, file + ":2:1: unknown key 'bugdet'; did you mean 'budget'?");
  expect_refused({"config", "check", path("absent")}, 3, path("absent") + ": there is no such settings file");
  expect_refused({"run", "--config", path("absent"), "--", "true"}, 3,
                 "--config " + path("absent") + ": there is no such settings file");
}

TEST_F(Command, TheSchemaKnowsEveryKeyThatIsShown) {
  const json schema = json::parse(run({"config", "schema"}).out);
  const json settings = json::parse(run({"config", "show", "--json"}).out)["settings"];
  EXPECT_EQ(schema["properties"].size(), settings.size());
  for (const auto& [key, value] : settings.items()) EXPECT_TRUE(schema["properties"].contains(key)) << key;
}

TEST_F(Command, DevicesAreListedWithASourceForEveryFigure) {
  const json out = json::parse(run({"devices", "--json"}).out);
  EXPECT_EQ(out["schema"], "thermocline-devices/1");
  EXPECT_EQ(out["devices"][0]["name"], "reference");
  for (const json& device : out["devices"]) {
    for (const auto& [figure, source] : device["sources"].items()) {
      EXPECT_TRUE(device.contains(figure));
      EXPECT_NE(source, "") << figure;
    }
  }
  const ProcessResult where = run({"devices", "--path"});
  EXPECT_EQ(where.status, 0);
  EXPECT_TRUE(std::filesystem::exists(where.out.substr(0, where.out.find('\n')) + "/libcuda.so.1"));
}

TEST_F(Command, WithoutADeviceTheDoctorSaysSoInItsStatus) {
  // An invalid driver, so that the machine's own is not used.
  std::filesystem::create_directories(folder_ / "empty");
  write("empty/libcuda.so.1", "");
  const ProcessResult result = run({"doctor", "--json"}, {"LD_LIBRARY_PATH=" + path("empty")});
  EXPECT_EQ(result.status, 4);
  EXPECT_TRUE(json::parse(result.out)["devices"].empty());
}

TEST_F(Command, TheDoctorFindsTheSimulatedDeviceWhereTheLoaderDoes) {
  std::string folder = run({"devices", "--path"}).out;
  folder.pop_back();
  const ProcessResult result =
      run({"doctor", "--json"}, {"LD_LIBRARY_PATH=" + folder, "THERMOCLINE_SIMULATE_DEVICE=h200"});
  EXPECT_EQ(result.status, 0) << result.err;
  const json out = json::parse(result.out);
  ASSERT_EQ(out["devices"].size(), 1u);
  EXPECT_EQ(out["devices"][0]["virtual_memory"], true);
  EXPECT_EQ(out["driver"]["path"], folder + "/libcuda.so.1");
}

TEST_F(Command, TheDoctorLooksAtAProgram) {
  const json out = json::parse(run({"doctor", "--json", "--", kCommand}).out);
  EXPECT_EQ(out["program"]["cuda_runtime"], "none");
  EXPECT_EQ(json::parse(run({"doctor", "--json", write("script", "#!/bin/sh\n")}).out)["program"]["error"],
            "it is no ELF program (a script is run by its interpreter)");
}

TEST_F(Command, TheDoctorRefusesAProgramThatItCanNotRead) {
  const std::string none = path("none");
  expect_refused({"doctor", none}, 3, none + ": can not be opened: No such file or directory");
  expect_refused({"doctor", "--json", "--", none}, 3, none + ": can not be opened: No such file or directory");
  expect_refused({"doctor", "no-such-program"}, 3, "no-such-program: can not be opened: No such file or directory");
  expect_refused({"doctor", folder_.string()}, 3, folder_.string() + ": it is a folder; expected a program");
  expect_refused({"doctor", "/dev/null"}, 3, "/dev/null: it is no file; expected a program");
}

}  // namespace
}  // namespace thermocline::test
