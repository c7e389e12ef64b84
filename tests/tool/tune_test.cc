// SPDX-License-Identifier: Apache-2.0
// thermocline tune from outside: what it writes is what a replay then shows.
#include <nlohmann/json.hpp>

#include "tests/tool/command_fixture.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

const std::string kTraces = THERMOCLINE_TRACES;
const std::string kUnet = kTraces + "/unet3d_b1_128.jsonl.gz";

// Forward and backward over `layers` activations whose size is proportional to the batch, as in training; 4 MiB per
// sample.
std::string training(int batch, int layers, bool says_batch = true) {
  std::string text = R"({"schema":"thermocline-trace/1")" +
                     (says_batch ? ",\"batch\":" + std::to_string(batch) : std::string()) + "}\n";
  text += R"({"e":"alloc","b":0,"n":8388608})"
          "\n";
  const long long bytes = 4LL * 1024 * 1024 * batch;
  const auto op = [&](const std::string& name, int from, int to) {
    text += R"({"e":"op","k":")" + name + R"(","r":[0,)" + std::to_string(from) + R"(],"w":[)" + std::to_string(to) +
            R"(],"flops":)" + std::to_string(2e9 * batch) + R"(,"bytes":)" + std::to_string(2 * bytes) + "}\n";
  };
  for (int s = 0; s < 3; ++s) {
    const int first = 1 + s * (layers + 1);
    for (int i = 0; i <= layers; ++i) {
      text += R"({"e":"alloc","b":)" + std::to_string(first + i) + R"(,"n":)" + std::to_string(bytes) + "}\n";
      op("forth" + std::to_string(i), i == 0 ? 0 : first + i - 1, first + i);
    }
    for (int i = layers; i >= 0; --i) {
      op("back" + std::to_string(i), first + i, i == 0 ? 0 : first + i - 1);
      text += R"({"e":"free","b":)" + std::to_string(first + i) + "}\n";
    }
    text += R"({"e":"step","i":)" + std::to_string(s) + "}\n";
  }
  return text;
}

class Tune : public Command {
 protected:
  json tune(std::vector<std::string> flags) const {
    flags.insert(flags.begin(), "tune");
    flags.emplace_back("--json");
    const ProcessResult result = run(flags);
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }
};

TEST_F(Tune, WhatItWritesGivesTheStepThatItPredicts) {
  const std::string trace = write("t.jsonl", training(8, 12));
  for (const char* device : {"reference", "titan-x-12g"}) {
    const std::string file = path("tuned.toml");
    const json out = tune({trace, "--device", device, "--budget", "60%", "-o", file});
    EXPECT_EQ(out["schema"], "thermocline-tune/1");
    EXPECT_LE(out["steady_step_ms"], out["default_step_ms"]);
    EXPECT_LE(out["bound_ms"].get<double>(), out["steady_step_ms"].get<double>() * (1 + 1e-6));
    EXPECT_EQ(run({"config", "check", file}).status, 0);
    const json replayed =
        json::parse(run({"replay", trace, "--device", device, "--steps", "8", "--config", file, "--json"}).out);
    EXPECT_EQ(replayed["steady_step_ms"], out["steady_step_ms"]);
    EXPECT_EQ(replayed["budget_bytes"], out["budget_bytes"]);
    EXPECT_NE(read(file).find("# Written by thermocline tune"), std::string::npos);
  }
}

TEST_F(Tune, TheBudgetIsTheOneThatWasAskedFor) {
  const std::string trace = write("t.jsonl", training(8, 12));
  const std::string file = path("tuned.toml");
  const json out = tune({trace, "--budget", "123456789", "--steps", "3", "-o", file});
  EXPECT_EQ(out["budget_bytes"], 123456789);
  EXPECT_NE(read(file).find("budget = \"123456789\"  # 117.7 MiB for the peak "), std::string::npos) << read(file);
  const auto in_percent = [&](const char* budget) {
    return json::parse(run({"replay", trace, "--steps", "1", "--budget", budget, "--json"}).out)["budget_bytes"];
  };
  EXPECT_EQ(out["curve"][1]["budget_bytes"], in_percent("90%"));
}

// Forward and backward over activations of 16 MiB, which take ten times as long to copy as to make.
std::string cheap_activations(int layers) {
  const auto line = [](const std::string& text) { return "{" + text + "}\n"; };
  const auto number = [](int n) { return std::to_string(n); };
  constexpr const char* kBytes = R"(,"n":16777216)";
  std::string text = line(R"("schema":"thermocline-trace/1")") + line(R"("e":"alloc","b":0,"n":4096)");
  const auto op = [&](const char* name, const std::string& reads, int to) {
    text += line(R"("e":"op","k":")" + std::string(name) + R"(","r":[0)" + reads + R"(],"w":[)" + number(to) +
                 R"(],"flops":1e9,"bytes":1e6)");
  };
  for (int step = 0; step < 3; ++step) {
    const int first = 1 + step * (layers + 1), gradient = first + layers;
    for (int i = 0; i < layers; ++i) {
      text += line(R"("e":"alloc","b":)" + number(first + i) + kBytes);
      op("forth", i == 0 ? "" : "," + number(first + i - 1), first + i);
    }
    text += line(R"("e":"alloc","b":)" + number(gradient) + kBytes);
    op("loss", "," + number(gradient - 1), gradient);
    for (int i = layers - 1; i >= 0; --i) {
      op("back", "," + number(first + i) + "," + number(gradient), gradient);
      text += line(R"("e":"free","b":)" + number(first + i));
    }
    text += line(R"("e":"free","b":)" + number(gradient)) + line(R"("e":"step","i":)" + number(step));
  }
  return text;
}

TEST_F(Tune, WhereRecomputingIsFasterItIsWritten) {
  const std::string trace = write("t.jsonl", cheap_activations(24));
  const std::string file = path("tuned.toml");
  const std::vector<std::string> common = {trace, "--device",   "titan-x-12g", "--budget",
                                           "50%", "--no-curve", "-o",          file};
  const auto with = [&common](std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    return more;
  };
  const json swapped = tune(with({}));
  EXPECT_EQ(swapped["settings"]["recompute"], "off") << "it is not known what operators read and write";
  EXPECT_EQ(read(file).find("recompute"), std::string::npos);
  const json off = tune(with({"--exact", "--recompute", "off"}));
  EXPECT_EQ(off["settings"]["recompute"], "off");
  EXPECT_EQ(off["recomputed_operations"], 0);
  const json out = tune(with({"--exact"}));
  EXPECT_EQ(out["settings"]["recompute"], "auto");
  EXPECT_LT(out["steady_step_ms"].get<double>(), 0.9 * off["steady_step_ms"].get<double>());
  EXPECT_GT(out["recomputed_operations"], 0);
  EXPECT_GT(out["dropped_bytes"], 0);
  EXPECT_EQ(run({"config", "check", file}).status, 0);
  const std::string written = read(file);
  EXPECT_NE(written.find("recompute = \"auto\""), std::string::npos) << written;
  EXPECT_NE(written.find("--steps 8 --exact --config THIS_FILE"), std::string::npos) << written;
  const json replayed = json::parse(
      run({"replay", trace, "--device", "titan-x-12g", "--steps", "8", "--exact", "--config", file, "--json"}).out);
  EXPECT_EQ(replayed["steady_step_ms"], out["steady_step_ms"]);
}

TEST_F(Tune, WhereRecomputingMakesNoDifferenceItIsNotWritten) {
  const std::string trace = write("t.jsonl", training(8, 4));
  const std::string file = path("tuned.toml");
  const json out = tune({trace, "--exact", "--budget", "150%", "--steps", "4", "--no-curve", "-o", file});
  EXPECT_EQ(out["settings"]["recompute"], "off");
  EXPECT_NE(read(file).find("recompute = \"off\""), std::string::npos) << read(file);
  const ProcessResult told = run({"tune", trace, "--recompute", "auto", "--steps", "2", "--no-curve"});
  EXPECT_NE(told.err.find("nothing is recomputed: that needs --exact"), std::string::npos) << told.err;
}

// Its name must not become a line of the settings.
TEST_F(Tune, ATraceWithAnyNameGivesAGoodFile) {
  const std::string trace = write("it's\npolicy = 3 \xc3\xbc.jsonl", training(8, 4));
  const std::string file = path("tuned it.toml");
  const ProcessResult result = run({"tune", trace, "--budget", "60%", "--steps", "3", "--no-curve", "-o", file});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("thermocline run --config '" + file + "' -- PROGRAM"), std::string::npos) << result.err;
  EXPECT_EQ(run({"config", "check", file}).status, 0) << read(file);
  EXPECT_NE(read(file).find("/it'\\''s?policy = 3 \xc3\xbc.jsonl' --device reference"), std::string::npos)
      << read(file);
}

TEST_F(Tune, OnARecordedWorkloadItIsAtLeastAsGoodAsTheDefaults) {
  for (const char* budget : {"90%", "50%"}) {
    const json out = tune({kUnet, "--device", "titan-x-12g", "--budget", budget, "--no-curve"});
    EXPECT_LE(out["steady_step_ms"], out["default_step_ms"]);
    EXPECT_TRUE(out["curve"].empty());
  }
}

TEST_F(Tune, WithTheLeastBudgetItRunsAndWithLessItDoesNot) {
  const std::string trace = write("t.jsonl", training(8, 6));
  const json out = tune({trace, "--budget", "100%"});
  const auto least = out["least_budget_bytes"].get<long long>();
  EXPECT_GE(least, out["least_possible_bytes"].get<long long>());
  const auto because = out["least_budget_because"].get<std::string>();
  EXPECT_NE(because.find(" needs "), std::string::npos) << because;
  EXPECT_FALSE(because.starts_with("it ")) << "it says what does: " << because;
  const auto replay_in = [&](long long bytes) {
    return run({"replay", trace, "--steps", "8", "--budget", std::to_string(bytes), "--json"}).status;
  };
  EXPECT_EQ(replay_in(least), 0);
  EXPECT_EQ(replay_in(least - 1024 * 1024), 1);
  // The curve ends there.
  ASSERT_FALSE(out["curve"].empty());
  EXPECT_EQ(out["curve"].back()["budget_bytes"], least);
  EXPECT_GE(out["curve"].back()["tuned_step_ms"], out["curve"].front()["tuned_step_ms"]);
}

TEST_F(Tune, WhereNothingRunsThatIsTheResultAndNoFileIsWritten) {
  const std::string trace = write("t.jsonl", training(8, 6));
  const ProcessResult result = run({"tune", trace, "--budget", "10%", "-o", path("none.toml"), "--json"});
  EXPECT_EQ(result.status, 1);
  const json out = json::parse(result.out);
  EXPECT_EQ(out["outcome"], "out_of_memory");
  EXPECT_TRUE(out["steady_step_ms"].is_null());
  EXPECT_GT(out["least_budget_bytes"], out["budget_bytes"]);
  EXPECT_FALSE(std::filesystem::exists(path("none.toml")));
  EXPECT_EQ(files(), std::vector<std::string>{"t.jsonl"});
}

TEST_F(Tune, OfAPairTheLargestBatchIsWhatAReplayOfThatBatchAllows) {
  const std::string small = write("8.jsonl", training(8, 10)), large = write("16.jsonl", training(16, 10));
  const json out = tune(
      {small, "--pair", large, "--device", "titan-x-12g", "--budget", "1GiB", "--max-slowdown", "20%", "--no-curve"});
  const json& pair = out["pair"];
  ASSERT_TRUE(pair["largest"].is_object()) << pair;
  const int largest = pair["largest"]["batch"].get<int>();
  EXPECT_GE(largest, pair["largest_unswapped"]["batch"].get<int>());
  // Recordings with that batch, and with one more, agree.
  for (const int batch : {largest, largest + 1}) {
    const std::string real = write("real.jsonl", training(batch, 10));
    const json replayed =
        json::parse(run({"replay", real, "--device", "titan-x-12g", "--budget", "1GiB", "--steps", "8", "--json"}).out);
    const double slowdown = replayed["outcome"] == "ok"
                                ? replayed["steady_step_ms"].get<double>() / replayed["compute_step_ms"].get<double>()
                                : 1e9;
    EXPECT_EQ(slowdown <= 1.2, batch == largest) << batch << ": " << slowdown;
  }
}

TEST_F(Tune, BadInputIsRefusedInOneLine) {
  const std::string trace = write("t.jsonl", training(8, 3));
  const std::string unnamed = write("unnamed.jsonl", training(16, 3, false));
  expect_refused({"tune", trace, "--steps", "0"}, 2,
                 "--steps: '0' is not a whole number from 1 to 100000 ('thermocline tune --help' shows the usage)");
  expect_refused({"tune", trace, "--device", "h20"}, 2,
                 "--device: unknown device 'h20'; did you mean 'h200'? ('thermocline devices' lists them)");
  expect_refused({"tune", path("absent")}, 3, path("absent") + ": can not be opened: No such file or directory");
  expect_refused({"tune", trace, "-o", "/nowhere/x.toml"}, 1,
                 "/nowhere/x.toml: can not be written: No such file or directory");
  expect_refused({"tune", trace, "--pair", unnamed}, 2,
                 unnamed + ": does not say of which batch size it is; give both with --batches A,B");
  expect_refused({"tune", trace, "--pair", trace}, 2,
                 "--pair: two recordings at two batch sizes of at least 1 are needed");
  expect_refused({"tune", trace, "--json", "-o", "-"}, 2, "--json and -o - are both for stdout; give -o a file");
  expect_refused({"tune", trace, "--batches", "1,2"}, 2, "--batches takes two numbers, and goes with --pair");
  EXPECT_EQ(run({"tune", trace, "--max-slowdown", "3GiB"}).status, 2);
  EXPECT_EQ(run({"tune", trace, "--pair", kUnet, "--batches", "1,2"}).status, 3);
}

TEST_F(Tune, AFullDiskIsTold) {
  const std::string trace = write("t.jsonl", training(8, 3));
  const ProcessResult result = run({"tune", trace, "--budget", "80%", "--no-curve", "-o", "/dev/full"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("thermocline: /dev/full: can not be written: No space left on device\n"), std::string::npos)
      << result.err;
}

}  // namespace
}  // namespace thermocline::test
