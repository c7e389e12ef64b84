// SPDX-License-Identifier: Apache-2.0
// Numbers, sizes and percentages on the command line, and how many steps a replay has.
#include <nlohmann/json.hpp>

#include "tests/tool/command_fixture.h"
#include "tests/tool/replayed.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

struct NumberOption {
  std::vector<std::string> begin;  // the command, and what it needs
  std::string name;                // "": positional
  const char *kind, *least, *most, *beyond;
};

std::vector<NumberOption> number_options() {
  constexpr const char *kMost = "18446744073709551615", *kBeyond = "18446744073709551616";
  std::vector<NumberOption> all = {
      {{"replay", kUnet}, "--steps", "whole number", "1", "100000", "100001"},
      {{"replay", kUnet}, "--streams", "whole number", "1", "64", "65"},
      {{"replay", kUnet}, "--seed", "whole number", "0", kMost, kBeyond},
      {{"bound", kUnet}, "--slots", "whole number", "1", "200", "201"},
      {{"estimate", kUnet}, "--steps", "whole number", "1", "100000", "99999999999"},
      {{"tune", kUnet}, "--steps", "whole number", "1", "100000", "99999999999"},
      {{"tune", kUnet, "--pair", kUnet}, "--batches", "number", "1", "1048576", "1048577"},
      {{"report", kUnet}, "--steps", "whole number", "1", "1000", "1001"},
      {{"report", kUnet}, "--show", "whole number", "1", "1000", "1001"},
      {{"export", kUnet, "--format", "csv", "-o", "-"}, "--steps", "whole number", "1", "1000", "1001"},
      {{"run"}, "--seed", "whole number", "0", kMost, kBeyond},
      {{"record", "-o", "x"}, "--seed", "whole number", "0", kMost, kBeyond},
      {{"stats"}, "--interval", "number", "0.05", "86400", "86401"},
      {{"stats"}, "", "whole number", "1", "2147483647", "2147483648"}};
  for (const char* const command : {"sleep", "wake"}) {
    all.push_back({{command, "--all"}, "--timeout", "number", "0.000001", "86400", "1000000"});
    all.push_back({{command}, "", "whole number", "1", "2147483647", "2147483648"});
  }
  return all;
}

TEST_F(Command, EveryNumberIsDecimalAndWithinARange) {
  for (const NumberOption& option : number_options()) {
    for (const std::string value : {"-1", "0x10", "1e1", "+1", "1 ", "many", "", "nan", option.beyond}) {
      std::vector<std::string> arguments = option.begin;
      // A positional word that begins with a dash is a flag to the parser.
      if (option.name.empty() && (value.empty() || value.front() == '-')) continue;
      if (!option.name.empty()) arguments.push_back(option.name);
      arguments.push_back(value);
      const std::string name = option.name.empty() ? "PID" : option.name;
      expect_refused(arguments, 2,
                     name + ": '" + value + "' is not a " + option.kind + " from " + option.least + " to " +
                         option.most + " ('thermocline " + option.begin[0] + " --help' shows the usage)");
    }
  }
  const json replayed = replay_json(run({"replay", kUnet, "--steps", "010", "--no-check", "--json"}));
  EXPECT_EQ(replayed["steps"].size(), 10u);
}

// An option that is not added by add_number has the parser's own name of its type.
TEST_F(Command, NoNumberIsReadByTheParserItself) {
  for (const char* const command :
       {"run", "record", "stats", "sleep", "wake", "estimate", "replay", "plan", "bound", "tune", "report", "export",
        "compare", "convert", "devices", "doctor", "config", "manual"}) {
    const std::string help = run({"help", command}).out;
    EXPECT_NE(help.find("Usage: "), std::string::npos) << command;
    for (const char* const type : {"UINT", " INT", "FLOAT"}) EXPECT_EQ(help.find(type), std::string::npos) << help;
  }
}

TEST_F(Command, APercentageOfAPeakInASettingsFileIsToldWhatToWrite) {
  const std::string file = write("peak.toml", "budget = \"60%peak\"\n");
  const std::string why =
      " is of a recorded program's peak, which only the --budget of commands that read a trace knows; write for "
      "example ";
  expect_refused({"config", "check", file}, 3, file + ":1:1: budget: '60%peak'" + why + "12GiB, 512MiB, 60%, shared");
  expect_refused({"bound", kUnet, "--pages", "60%peak"}, 2, "--pages: '60%peak'" + why + "12GiB");
  const std::string device = write("device.toml", "budget = \"60%device\"\n");
  expect_refused({"config", "check", device}, 3,
                 device +
                     ":1:1: budget: '60%device' says of what it is, which a percentage here does not; did you mean "
                     "'60%'?");
}

TEST_F(Command, AShareOfAPeakIsNeverNothing) {
  const std::string trace = write("tiny.jsonl", R"({"schema":"thermocline-trace/1"}
{"e":"alloc","b":0,"n":4096}
{"e":"op","k":"a","w":[0],"flops":1,"bytes":1}
{"e":"step","i":0}
)");
  const ProcessResult result = run({"replay", trace, "--budget", "0.000001%", "--json"});
  EXPECT_EQ(json::parse(result.out)["budget_bytes"], 1);
  EXPECT_EQ(result.status, 1) << "a budget of nothing would be no budget";
}

TEST_F(Command, ABudgetMayBeMoreThanThePeakHoweverItIsWritten) {
  const json whole = json::parse(run({"bound", kUnet, "--budget", "100%", "--json"}).out);
  const auto peak = whole["peak_live_bytes"].get<long long>();
  for (const std::string& budget : {std::string("200%"), std::to_string(2 * peak)}) {
    const json row = json::parse(run({"bound", kUnet, "--budget", budget, "--json"}).out)["rows"][0];
    EXPECT_EQ(row["budget_bytes"], 2 * peak) << budget;
    EXPECT_DOUBLE_EQ(row["bound_ms"].get<double>(), whole["compute_ms"].get<double>()) << budget;
    const json plan = json::parse(run({"plan", kUnet, "--budget", budget, "--json"}).out);
    EXPECT_EQ(plan["budget_bytes"], 2 * peak) << budget;
    EXPECT_EQ(plan["fits"], true) << budget;
  }
}

// Two buffers, and per step as many operators as `operators` says.
std::string trace_of(const std::vector<int>& operators) {
  std::string text = R"({"schema":"thermocline-trace/1"}
{"e":"alloc","b":0,"n":4194304}
{"e":"alloc","b":1,"n":4194304}
)";
  for (std::size_t s = 0; s < operators.size(); ++s) {
    for (int i = 0; i < operators[s]; ++i)
      text += R"({"e":"op","k":"a","r":[0],"w":[1],"us":1000})"
              "\n";
    text += R"({"e":"step","i":)" + std::to_string(s) + "}\n";
  }
  return text;
}

// All commands say the same of steps that differ: the median of all but the first two. None repeats the last one unasked.
TEST_F(Command, OfStepsThatDifferAllCommandsTakeTheSameMedian) {
  const std::string trace = write("differ.jsonl", trace_of({1, 1, 2, 7, 9}));
  const json replayed = replay_json(run({"replay", trace, "--json"}));
  EXPECT_EQ(replayed["steps"].size(), 5u);
  EXPECT_EQ(replayed["steps_repeat"], false);
  const auto ms = replayed["steady_step_ms"].get<double>();
  EXPECT_NEAR(ms, 7, 0.1);
  EXPECT_EQ(replayed["compute_step_ms"], ms);
  const json estimated = json::parse(run({"estimate", trace, "--device", "reference", "--json"}).out);
  EXPECT_EQ(estimated["steps"], 5);
  EXPECT_EQ(estimated["steps_repeat"], false);
  EXPECT_EQ(estimated["devices"][0]["steady_step_ms"], ms);
  const json compared = json::parse(run({"compare", trace, "--json"}).out);
  EXPECT_EQ(compared["traces"][0]["steps_repeat"], false);
  EXPECT_NEAR(compared["traces"][0]["compute_step_ms"].get<double>(), ms, 0.1);
  const json tuned = json::parse(run({"tune", trace, "--no-curve", "--json"}).out);
  EXPECT_EQ(tuned["default_step_ms"], ms);
  for (const char* const command : {"replay", "estimate", "compare"}) {
    EXPECT_NE(run({command, trace}).out.find("median of all but the first two"), std::string::npos) << command;
  }
}

TEST_F(Command, OfStepsThatRepeatAllCommandsTakeTheSameStep) {
  const std::string trace = write("repeat.jsonl", trace_of({9, 3, 3}));
  const json replayed = replay_json(run({"replay", trace, "--json"}));
  EXPECT_EQ(replayed["steps"].size(), 12u);
  EXPECT_EQ(replayed["steps_repeat"], true);
  const auto ms = replayed["steady_step_ms"].get<double>();
  EXPECT_NEAR(ms, 3, 0.1);
  const json estimated = json::parse(run({"estimate", trace, "--device", "reference", "--json"}).out);
  EXPECT_EQ(estimated["steps"], 8);
  EXPECT_NEAR(estimated["devices"][0]["steady_step_ms"].get<double>(), ms, 1e-3);
  EXPECT_NEAR(json::parse(run({"compare", trace, "--json"}).out)["traces"][0]["compute_step_ms"].get<double>(), ms,
              0.1);
  EXPECT_EQ(run({"compare", trace}).out.find("median of all"), std::string::npos);
}

// All commands either do what was requested, or refuse it.
TEST_F(Command, StepsThatCanNotRepeatAreRefusedOnlyWhereTheyWereAskedFor) {
  const std::string trace = write("grows.jsonl", R"({"schema":"thermocline-trace/1"}
{"e":"alloc","b":0,"n":4096}
{"e":"op","k":"a","w":[0],"us":10}
{"e":"step","i":0}
{"e":"alloc","b":1,"n":4096}
{"e":"op","k":"a","w":[1],"us":10}
{"e":"step","i":1}
)");
  const std::vector<std::vector<std::string>> commands = {{"replay", trace},
                                                          {"estimate", trace, "--device", "reference"},
                                                          {"tune", trace, "--no-curve"},
                                                          {"report", trace, "-o", path("r.html")},
                                                          {"export", trace, "--format", "csv", "-o", path("r.csv")}};
  for (std::vector<std::string> command : commands) {
    EXPECT_EQ(run(command).status, 0) << command[0];
    command.insert(command.end(), {"--steps", "3"});
    const ProcessResult result = run(command);
    EXPECT_EQ(result.status, 3) << command[0];
    EXPECT_NE(result.err.find(trace + ": the last of the 2 steps can not repeat: it leaves 1 more"), std::string::npos)
        << command[0] << ": " << result.err;
  }
}

}  // namespace
}  // namespace thermocline::test
