// SPDX-License-Identifier: Apache-2.0
// Swapping and recomputing side by side.
#include <nlohmann/json.hpp>

#include "tests/tool/command_fixture.h"
#include "tests/tool/replayed.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

TEST_F(Command, ComparesCopiesWithRecomputing) {
  const ProcessResult result =
      run({"replay", kResnet, "--exact", "--budget", "60%", "--no-check", "--steps", "5", "--json", "--compare", "swap",
           "recompute", "joint", "sqrt", "checkpoint-all", "checkmate"});
  const json out = json::parse(result.out, nullptr, false);
  ASSERT_EQ(out["runs"].size(), 6u) << result.err;
  const json& swap = out["runs"][0];
  EXPECT_EQ(swap["recomputed_operations"], 0);
  for (std::size_t i = 0; i < 6; ++i) {
    const json& one = out["runs"][i];
    EXPECT_EQ(one["policy"], one["name"]);
    EXPECT_EQ(one["checksum"], swap["checksum"]);
  }
  const json& joint = out["runs"][2];
  EXPECT_GT(joint["recomputed_operations"], 0);
  EXPECT_LE(joint["steady_step_ms"], swap["steady_step_ms"]);
  EXPECT_EQ(run({"replay", kUnet, "--policy", "joint"}).status, 2) << "without --exact nothing may run again";
  EXPECT_EQ(run({"replay", kUnet, "--exact", "--digests"}).status, 2) << "nothing is left to be found out";
}

TEST_F(Command, APolicyThatCanNotPlanATraceIsLeftOutOfTheComparison) {
  const std::vector<std::string> common = {"replay",     kResnet,   "--exact", "--budget", "60%",
                                           "--no-check", "--steps", "3",       "--json",   "--compare"};
  const auto compared = [&](const std::vector<std::string>& policies) {
    std::vector<std::string> arguments = common;
    arguments.insert(arguments.end(), policies.begin(), policies.end());
    return run(arguments);
  };
  const ProcessResult result = compared({"gruslys", "swap"});
  EXPECT_EQ(result.status, 0) << result.err;
  const json out = json::parse(result.out, nullptr, false);
  ASSERT_EQ(out["runs"].size(), 1u) << result.err;
  EXPECT_EQ(out["runs"][0]["name"], "swap");
  EXPECT_NE(result.err.find("gruslys needs a recurrent net"), std::string::npos) << result.err;
  ASSERT_EQ(out["left_out"].size(), 1u) << result.out;
  EXPECT_EQ(out["left_out"][0]["name"], "gruslys");
  EXPECT_NE(result.err.find(out["left_out"][0]["why"].get<std::string>()), std::string::npos) << result.err;
  EXPECT_EQ(compared({"gruslys", "gruslys"}).status, 3);
}

// A recurrent net whose steps make a state each, and which goes back through them.
std::string recurrent_trace(int steps) {
  const auto line = [](const std::string& text) { return "{" + text + "}\n"; };
  const auto number = [](int n) { return std::to_string(n); };
  constexpr const char* kState = R"(,"n":8388608)";
  std::string text =
      line(R"("schema":"thermocline-trace/1","model":"recurrent")") + line(R"("e":"alloc","b":0,"n":4096)");
  int next = 1;
  for (int step = 0; step < 4; ++step) {
    const int first = next;
    for (int i = 0; i < steps; ++i, ++next) {
      text += line(R"("e":"alloc","b":)" + number(next) + kState);
      const std::string reads = i == 0 ? "0" : "0," + number(next - 1);
      text +=
          line(R"("e":"op","k":"cell","r":[)" + reads + R"(],"w":[)" + number(next) + R"(],"flops":4e9,"bytes":1e6)");
    }
    const int gradient = next++;
    text += line(R"("e":"alloc","b":)" + number(gradient) + kState);
    text += line(R"("e":"op","k":"loss","r":[)" + number(gradient - 1) + R"(],"w":[)" + number(gradient) +
                 R"(],"flops":1e6,"bytes":1e6)");
    for (int state = gradient - 1; state >= first; --state) {
      text += line(R"("e":"op","k":"cell_backward","r":[0,)" + number(state) + "," + number(gradient) + R"(],"w":[)" +
                   number(gradient) + R"(],"flops":8e9,"bytes":1e6)");
      text += line(R"("e":"free","b":)" + number(state));
    }
    text += line(R"("e":"free","b":)" + number(gradient)) + line(R"("e":"step","i":)" + number(step));
  }
  return text;
}

// In a fifth of the memory, and in adversarial orders.
TEST_F(Command, StatesOfARecurrentNetAreMadeAgain) {
  const std::string trace = write("recurrent.jsonl", recurrent_trace(100));
  for (const char* seed : {"1", "7"}) {
    const ProcessResult result = run({"replay", trace, "--exact", "--budget", "20%", "--steps", "8", "--json", "--seed",
                                      seed, "--compare", "gruslys", "joint"});
    EXPECT_EQ(result.status, 0) << result.err;
    const json out = json::parse(result.out, nullptr, false);
    ASSERT_EQ(out["runs"].size(), 2u) << result.err;
    const json& gruslys = out["runs"][0];
    EXPECT_EQ(gruslys["checksum"], out["runs"][1]["checksum"]);
    EXPECT_EQ(gruslys["races"], 0);
    EXPECT_LE(gruslys["peak_device_bytes"], gruslys["budget_bytes"]);
    EXPECT_EQ(gruslys["steps"].back()["evicted_bytes"], 0) << "it copies nothing";
    // With 18 slots or so each state is made again once or twice at most.
    EXPECT_GE(gruslys["steps"].back()["recomputed_operations"], 70);
    EXPECT_LE(gruslys["steps"].back()["recomputed_operations"], 110);
  }
}

TEST_F(Command, GruslysIsForRecurrentNetsAlone) {
  expect_refused({"replay", kResnet, "--exact", "--budget", "50%", "--policy", "gruslys"}, 3,
                 kResnet +
                     ": gruslys needs a recurrent net, whose forward pass is a chain of 4 or more equal steps; sqrt "
                     "and checkpoint-all plan any forward pass");
  expect_refused({"plan", kResnet, "--budget", "50%", "--plans", "gruslys"}, 3,
                 kResnet +
                     ": gruslys needs a recurrent net, whose forward pass is a chain of 4 or more equal steps; sqrt "
                     "and checkpoint-all plan any forward pass");
}

// In a third of its memory a step takes 1.15 times as long with recomputing alone, and 1.10 with copies, too; copies alone
// take 3 times as long. The program does not begin where detection does: what lives across the end of the iteration that
// is found can not be recomputed.
TEST_F(Command, AThirdOfTheMemoryIsEnoughForRecomputing) {
  const ProcessResult result = run({"replay", kResnet, "--exact", "--budget", "33%peak", "--no-check", "--steps", "8",
                                    "--json", "--compare", "recompute", "joint"});
  const json out = json::parse(result.out, nullptr, false);
  ASSERT_EQ(out["runs"].size(), 2u) << result.err;
  for (const json& one : out["runs"]) {
    EXPECT_LE(one["steady_step_ms"].get<double>(), 1.2 * one["compute_step_ms"].get<double>()) << one["name"];
  }
}

// At each budget, as a replay of as many steps says.
TEST_F(Command, EstimatesSayWhatIsRecomputed) {
  const std::vector<std::string> flags = {"--device", "reference", "--exact", "--recompute", "auto", "--steps", "6"};
  const auto with = [&](std::vector<std::string> command, const std::vector<std::string>& more) {
    command.insert(command.end(), flags.begin(), flags.end());
    command.insert(command.end(), more.begin(), more.end());
    return run(command);
  };
  const json estimated = json::parse(with({"estimate", kResnet}, {"--budget", "50%peak", "--json"}).out)["devices"][0];
  const json replayed = replay_json(with({"replay", kResnet}, {"--budget", "50%", "--json", "--no-check"}));
  const json& last = replayed["steps"][5];
  EXPECT_EQ(estimated["steady_step_ms"], replayed["steady_step_ms"]);
  EXPECT_LT(estimated["steady_step_ms"], estimated["bound_ms"]) << "copies alone are slower";
  EXPECT_GT(last["recomputed_operations"], 0);
  EXPECT_EQ(estimated["recomputed"]["operations_per_step"], last["recomputed_operations"]);
  EXPECT_EQ(estimated["recomputed"]["ms_per_step"], last["recomputed_ms"]);
  EXPECT_EQ(estimated["recomputed"]["dropped_buffers_per_step"], last["dropped_buffers"]);
  EXPECT_EQ(estimated["recomputed"]["dropped_bytes_per_step"], last["dropped_bytes"]);
  const std::string text = with({"estimate", kResnet}, {"--budget", "50%peak"}).out;
  EXPECT_NE(text.find("made again"), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(last["recomputed_operations"].get<int>()) + " operators, "), std::string::npos)
      << text;
  const ProcessResult plain = run({"estimate", kUnet, "--device", "reference", "--steps", "3", "--recompute", "auto"});
  EXPECT_EQ(plain.out.find("made again"), std::string::npos) << plain.out;
  EXPECT_NE(plain.err.find("nothing is recomputed: that needs --exact"), std::string::npos) << plain.err;
}

// None of the three replays recomputes, and each prints why.
TEST_F(Command, WhereNothingIsRecomputedThatIsSaid) {
  const auto replayed = [this](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"replay", kUnet,    "--budget",   "60%",         "--steps",
                                          "5",      "--json", "--no-check", "--recompute", "auto"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = run(arguments);
    EXPECT_EQ(replay_json(result)["recomputed_operations"], 0);
    return result.err;
  };
  EXPECT_EQ(replayed({}),
            "thermocline: note: nothing is recomputed: that needs --exact, which tells the library what each "
            "operator reads and writes\n");
  EXPECT_EQ(replayed({"--exact", "--policy", "reactive"}),
            "thermocline: note: nothing is recomputed with policy reactive; learned does\n");
  EXPECT_EQ(replayed({"--exact", "--host-fallback", "full"}),
            "thermocline: note: nothing is recomputed with host_fallback full; auto and off do\n");
  const ProcessResult recomputes = run(
      {"replay", kResnet, "--budget", "60%", "--steps", "5", "--json", "--no-check", "--exact", "--recompute", "auto"});
  EXPECT_GT(replay_json(recomputes)["recomputed_operations"], 0);
  EXPECT_EQ(recomputes.err, "");
}

}  // namespace
}  // namespace thermocline::test
