// SPDX-License-Identifier: Apache-2.0
// Operators that need more than the budget, through the commands.
#include <nlohmann/json.hpp>

#include "tests/tool/command_fixture.h"
#include "tests/tool/replayed.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

constexpr long long kMi = 1 << 20;

// Three equal steps, in which one operator needs 258 MiB of at most 258.
std::string large_operator() {
  std::string text = R"({"schema":"thermocline-trace/1"})";
  const auto add = [&text](const json& event) { text += "\n" + event.dump(); };
  const auto alloc = [&](int id, long long bytes) { add({{"e", "alloc"}, {"b", id}, {"n", bytes}}); };
  const auto op = [&](const char* name, std::vector<int> reads, std::vector<int> writes, double us) {
    json event = {{"e", "op"}, {"k", name}, {"r", reads}, {"w", writes}, {"us", us}};
    if (std::string(name) == "layer") event.update({{"slices", 16}, {"split", {reads[0], writes[0]}}});
    add(event);
  };
  alloc(0, 2 * kMi);
  for (int s = 0; s < 3; ++s) {
    const int x = 10 * (s + 1), y = x + 1;
    alloc(x, 128 * kMi);
    op("make", {}, {x}, 5000);
    alloc(y, 128 * kMi);
    op("layer", {x, 0}, {y}, 9000);
    add({{"e", "free"}, {"b", x}});
    op("use", {y}, {}, 5000);
    add({{"e", "free"}, {"b", y}});
    add({{"e", "step"}, {"i", s}});
  }
  return text + "\n";
}

TEST_F(Command, WhatDoesNotFitIsSplitIfAskedTo) {
  const std::string trace = write("large.jsonl", large_operator());
  const auto whole = run({"replay", trace, "--budget", "200MiB", "--json"});
  EXPECT_EQ(replay_json(whole)["outcome"], "out_of_memory");
  EXPECT_NE(whole.err.find("--split auto splits layer into 2 parts (3 operators)"), std::string::npos) << whole.err;
  const auto split = run({"replay", trace, "--budget", "200MiB", "--split", "auto", "--json"});
  EXPECT_EQ(split.status, 0) << split.err;
  const json answer = replay_json(split);
  EXPECT_EQ(answer["outcome"], "ok");
  EXPECT_EQ(answer["races"], 0);
  EXPECT_LE(answer["peak_device_bytes"], answer["budget_bytes"]);
  EXPECT_EQ(answer["peak_live_bytes"], 258 * kMi) << "of what was recorded";
  ASSERT_EQ(answer["split"].size(), 3u);
  EXPECT_EQ(answer["split"][0]["name"], "layer");
  EXPECT_EQ(answer["split"][0]["operator"], 1);
  EXPECT_GE(answer["split"][0]["parts"], 2);
  EXPECT_EQ(answer["split"][0]["bytes"], 258 * kMi);
  const json unlimited = replay_json(run({"replay", trace, "--json"}));
  EXPECT_EQ(answer["checksum"], unlimited["checksum"]);
  EXPECT_TRUE(unlimited["split"].is_null());
  for (const char* seed : {"1", "2"}) {
    const json other = replay_json(run({"replay", trace, "--budget", "200MiB", "--split", "auto", "--exact",
                                        "--recompute", "auto", "--seed", seed, "--streams", "2", "--json"}));
    EXPECT_EQ(other["checksum"], unlimited["checksum"]);
    EXPECT_EQ(other["races"], 0);
  }
}

TEST_F(Command, NothingIsSplitThatRunsAsItIs) {
  const std::string trace = write("large.jsonl", large_operator());
  const json answer = replay_json(run({"replay", trace, "--budget", "300MiB", "--split", "auto", "--json"}));
  EXPECT_EQ(answer["outcome"], "ok");
  EXPECT_TRUE(answer["split"].is_null());
}

TEST_F(Command, TheOthersSplitToo) {
  const std::string trace = write("large.jsonl", large_operator());
  const auto bound = run({"bound", trace, "--budget", "200MiB", "--split", "auto", "--joint"});
  EXPECT_NE(bound.out.find("with layer into 2 parts (3 operators)"), std::string::npos) << bound.out << bound.err;
  EXPECT_NE(run({"bound", trace, "--budget", "200MiB"}).out.find("does not fit: some operator needs 258.0 MiB"),
            std::string::npos);
  const auto plan = run({"plan", trace, "--budget", "200MiB", "--split", "auto", "--json"});
  EXPECT_EQ(plan.status, 0) << plan.err;
  const json planned = json::parse(plan.out);
  EXPECT_EQ(planned["split"][0]["name"], "layer");
  EXPECT_LE(planned["peak_bytes"], 200 * kMi);
  const auto estimate = run({"estimate", trace, "--device", "v100-16g", "--budget", "200MiB", "--split", "auto"});
  EXPECT_EQ(estimate.status, 0) << estimate.err;
  EXPECT_NE(estimate.out.find("Split on v100-16g: layer into "), std::string::npos) << estimate.out;
}

TEST_F(Command, TuneSplitsWhatNoSettingsMakeRun) {
  const std::string trace = write("large.jsonl", large_operator());
  const auto whole = run({"tune", trace, "--budget", "200MiB", "--no-curve", "--json"});
  EXPECT_EQ(json::parse(whole.out)["outcome"], "out_of_memory");
  EXPECT_TRUE(json::parse(whole.out)["split"].is_null());
  EXPECT_NE(whole.err.find("--split auto splits layer into 2 parts"), std::string::npos) << whole.err;
  const std::string settings = path("tuned.toml");
  const auto tuned =
      run({"tune", trace, "--budget", "200MiB", "--no-curve", "--split", "auto", "--json", "-o", settings});
  EXPECT_EQ(tuned.status, 0) << tuned.err;
  const json found = json::parse(tuned.out);
  EXPECT_EQ(found["outcome"], "ok");
  EXPECT_EQ(found["peak_live_bytes"], 258 * kMi) << "of what was recorded";
  EXPECT_EQ(found["split"][0]["name"], "layer");
  EXPECT_LE(found["least_budget_bytes"], 200 * kMi);
  const std::string written = read(settings);
  EXPECT_NE(written.find("#   in parts       layer into "), std::string::npos) << written;
  EXPECT_NE(written.find(" --split auto --config THIS_FILE"), std::string::npos) << written;
  const json again = replay_json(run(
      {"replay", trace, "--device", "reference", "--split", "auto", "--config", settings, "--json", "--steps", "8"}));
  EXPECT_EQ(again["outcome"], "ok");
  EXPECT_DOUBLE_EQ(again["steady_step_ms"].get<double>(), found["steady_step_ms"].get<double>());
}

// Each part once, in order, with a duration, in the lanes of the report and of viewers.
TEST_F(Command, ReportsAndExportsShowParts) {
  const std::string trace = write("large.jsonl", large_operator());
  EXPECT_NE(run({"export", trace, "--budget", "200MiB", "--format", "csv", "-o", path("x")}).status, 0);
  const std::string csv = path("out.csv"), perfetto = path("out.json"), page = path("out.html");
  ASSERT_EQ(run({"export", trace, "--budget", "200MiB", "--split", "auto", "--format", "csv", "-o", csv}).status, 0);
  const std::string lines = read(csv);
  const std::size_t first = lines.find("\"layer part 1 of "), second = lines.find("\"layer part 2 of ");
  ASSERT_NE(first, std::string::npos) << lines;
  ASSERT_NE(second, std::string::npos);
  EXPECT_LT(first, second);
  EXPECT_EQ(lines.find("\"layer\""), std::string::npos) << "no whole one";
  EXPECT_EQ(lines.find("operator,0.000"), std::string::npos) << "a part without a duration";
  ASSERT_EQ(
      run({"export", trace, "--budget", "200MiB", "--split", "auto", "--format", "perfetto", "-o", perfetto}).status,
      0);
  EXPECT_NE(read(perfetto).find("layer part 2 of "), std::string::npos);
  ASSERT_EQ(run({"report", trace, "--budget", "200MiB", "--split", "auto", "-o", page}).status, 0);
  const std::string html = read(page);
  EXPECT_NE(html.find("\"split\":\"layer into "), std::string::npos);
  EXPECT_NE(html.find("\"parts\":["), std::string::npos);
  ASSERT_EQ(run({"report", trace, "-o", page}).status, 0);
  EXPECT_EQ(read(page).find("\"parts\":["), std::string::npos) << "nothing is split";
}

TEST_F(Command, WrongWaysToSplitAreRefused) {
  for (const char* command : {"tune", "report", "export"}) {
    std::vector<std::string> line{command, write("large.jsonl", large_operator()), "--split", "aut"};
    if (std::string(command) == "export") line.insert(line.end(), {"--format", "csv", "-o", path("x")});
    EXPECT_EQ(run(line).status, 2) << command;
  }
  const std::string trace = write("large.jsonl", large_operator());
  const auto wrong = run({"replay", trace, "--split", "aut"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.err.find("--split: 'aut' is neither off nor auto"), std::string::npos) << wrong.err;
  EXPECT_EQ(run({"plan", trace, "--budget", "50%", "--split", "auto", "--terms", "x"}).status, 2);
  const auto marks = run({"convert", "-", write("out", ""), "--mark-slices"});
  EXPECT_EQ(marks.status, 2);
  EXPECT_NE(marks.err.find("--mark-slices reads the trace twice"), std::string::npos) << marks.err;
}

TEST_F(Command, WithoutABatchSizeNothingIsMarkedAndThatIsSaid) {
  const std::string marked = write("marked.jsonl", "");
  const auto convert = run({"convert", write("plain.jsonl", large_operator()), marked, "--mark-slices"});
  EXPECT_EQ(convert.status, 0) << convert.err;
  EXPECT_NE(convert.err.find("nothing was marked, because the header of the trace has no \"batch\""), std::string::npos)
      << convert.err;
}

// A batch of one image is split over channels.
TEST_F(Command, RecordedTracesAreMarkedByRules) {
  const std::string marked = write("marked.trace", "");
  const auto convert = run({"convert", kUnet, marked, "--mark-slices"});
  EXPECT_EQ(convert.status, 0) << convert.err;
  EXPECT_NE(convert.err.find("marked 140 operators that may be split"), std::string::npos) << convert.err;
  const json answer =
      replay_json(run({"replay", marked, "--budget", "40%", "--split", "auto", "--steps", "4", "--json"}));
  EXPECT_EQ(answer["outcome"], "ok");
  EXPECT_EQ(answer["races"], 0);
  EXPECT_EQ(answer["checksum"], replay_json(run({"replay", marked, "--json", "--steps", "4"}))["checksum"]);
}

}  // namespace
}  // namespace thermocline::test
