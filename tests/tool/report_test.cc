// SPDX-License-Identifier: Apache-2.0
// thermocline report from outside: a self-contained page that agrees with the replay.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "tests/tool/command_fixture.h"
#include "tests/tool/replayed.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

json data_in(const std::string& page) {
  const std::string begin = "<script id=\"data\" type=\"application/json\">";
  const std::size_t at = page.find(begin) + begin.size();
  return json::parse(page.substr(at, page.find("</script>", at) - at), nullptr, false);
}

class Report : public Command {
 protected:
  std::string page(std::vector<std::string> flags) const {
    flags.insert(flags.begin(), "report");
    flags.insert(flags.end(), {"-o", path("page.html")});
    const ProcessResult result = run(flags);
    EXPECT_EQ(result.status, 0) << result.err;
    return read(path("page.html"));
  }
};

TEST_F(Report, ThePageNeedsNothingFromAnywhere) {
  const std::string html = page({kUnet, "--budget", "60%"});
  EXPECT_TRUE(html.starts_with("<!doctype html>"));
  EXPECT_TRUE(html.ends_with("</html>\n"));
  for (const char* outside : {"http:", "https:", "src=", "href=", "@import", "url(", "@DATA@", "@SCRIPT@", "@STYLE@"}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
}

// By memory over time: what nobody can put a name to has to be little.
TEST_F(Report, LittleIsOfNoClass) {
  for (const char* const trace : {"resnet50_b64", "gpt2_b8", "unet3d_b1_128", "nmt_b128_t50"}) {
    const json data =
        data_in(page({std::string(THERMOCLINE_TRACES) + "/" + trace + ".jsonl.gz", "--budget", "90%", "--steps", "3"}));
    const json& run = data["runs"][0];
    const json& b = run["buffers"];
    double all = 0, other = 0;
    for (std::size_t i = 0; i < b["n"].size(); ++i) {
      const double held = b["n"][i].get<double>() * b["d"][i].get<double>();
      all += held;
      if (run["classes"][b["c"][i].get<std::size_t>()] == "other") other += held;
    }
    EXPECT_LT(other, 0.03 * all) << trace;
  }
}

TEST_F(Report, WhatItDrawsIsWhatTheReplaySays) {
  const json data = data_in(page({kUnet, "--budget", "60%", "--steps", "6", "--show", "2"}));
  EXPECT_EQ(data["schema"], "thermocline-report/1");
  const json& shown = data["runs"][0];
  const json replayed = json::parse(run({"replay", kUnet, "--budget", "60%", "--steps", "6", "--json"}).out);
  EXPECT_EQ(shown["summary"]["step_ms"], replayed["steady_step_ms"]);
  EXPECT_EQ(shown["summary"]["bound_ms"], replayed["bound_ms"]);
  EXPECT_EQ(shown["summary"]["compute_ms"], replayed["compute_step_ms"]);
  EXPECT_EQ(shown["budget"], replayed["budget_bytes"]);
  EXPECT_EQ(shown["stepEnds"].size(), 2u);
  // Memory as stacked on the page has the trace's peak.
  const json& b = shown["buffers"];
  std::vector<std::pair<std::int64_t, std::int64_t>> changes;
  for (std::size_t i = 0; i < b["n"].size(); ++i) {
    const std::int64_t begin = b["t"][i], life = b["d"][i], bytes = b["n"][i];
    changes.emplace_back(begin, bytes);
    changes.emplace_back(begin + life, -bytes);
  }
  std::ranges::sort(changes);
  std::int64_t live = 0, most = 0;
  for (const auto& [at, bytes] : changes) most = std::max(most, live += bytes);
  EXPECT_EQ(most, replayed["peak_live_bytes"]);
  // Every fetch of the shown steps is there.
  std::int64_t restored = 0;
  for (const json& bytes : shown["in"]["n"]) restored += bytes.get<std::int64_t>();
  EXPECT_GE(restored, replayed["steps"][5]["restored_bytes"].get<std::int64_t>());
  // Each with a reason that has a name.
  for (const char* lane : {"out", "in"}) {
    for (const json& why : shown[lane]["w"]) {
      EXPECT_GE(why, 0) << lane;
      EXPECT_LT(why.get<std::size_t>(), shown["reasons"][lane].size()) << lane;
    }
  }
  for (const json& out : shown["in"]["r"]) EXPECT_LT(out, static_cast<std::int64_t>(shown["out"]["t"].size()));
  for (const auto& [lane, columns] : {std::pair<std::string, std::size_t>{"ops", 5}, {"out", 6}, {"in", 6}}) {
    EXPECT_EQ(shown[lane].size(), columns);
    for (const json& column : shown[lane]) EXPECT_EQ(column.size(), shown[lane]["t"].size()) << lane;
  }
}

TEST_F(Report, WhatIsMadeAgainIsShown) {
  const std::vector<std::string> flags = {kResnet, "--budget", "50%", "--exact", "--recompute", "auto", "--steps", "6"};
  const json shown = data_in(page(flags))["runs"][0];
  std::vector<std::string> arguments = flags;
  arguments.insert(arguments.begin(), "replay");
  arguments.insert(arguments.end(), {"--json", "--no-check"});
  const json replayed = json::parse(run(arguments).out);
  EXPECT_EQ(shown["recompute"], "auto");
  EXPECT_EQ(shown["summary"]["step_ms"], replayed["steady_step_ms"]);
  const json &last = replayed["steps"][5], &before = replayed["steps"][4];
  EXPECT_GT(last["recomputed_operations"], 0);
  EXPECT_EQ(shown["summary"]["again"]["operators"], last["recomputed_operations"]);
  EXPECT_EQ(shown["summary"]["again"]["ms"], last["recomputed_ms"]);
  // Each run of an operator, as long as the replay says, with a reason, and some content that it is for.
  const json &again = shown["again"], &drops = shown["drops"];
  for (const json& column : again) EXPECT_EQ(column.size(), again["t"].size());
  for (const json& column : drops) EXPECT_EQ(column.size(), drops["t"].size());
  EXPECT_EQ(again["t"].size(),
            last["recomputed_operations"].get<std::size_t>() + before["recomputed_operations"].get<std::size_t>());
  double ms = 0;
  for (std::size_t i = 0; i < again["t"].size(); ++i) {
    ms += again["d"][i].get<double>() * 1e-4;
    EXPECT_LT(again["n"][i].get<std::size_t>(), shown["names"].size());
    EXPECT_EQ(shown["reasons"]["again"][again["w"][i].get<std::size_t>()], "planned");
    EXPECT_NE(std::ranges::find(drops["k"], again["k"][i]), drops["k"].end()) << "it makes nothing that was dropped";
  }
  EXPECT_NEAR(ms, last["recomputed_ms"].get<double>() + before["recomputed_ms"].get<double>(), 0.01 * ms);
  // Dropped contents return behind the operator that makes them, and belong to a buffer.
  std::uint64_t bytes = 0;
  for (std::size_t k = 0; k < drops["t"].size(); ++k) {
    EXPECT_GE(drops["b"][k], 0);
    EXPECT_GT(drops["d"][k], 0);
    EXPECT_GT(drops["copies"][k], 0);
    bytes += drops["n"][k].get<std::uint64_t>();
  }
  EXPECT_GE(bytes, shown["summary"]["dropped"]["bytes"].get<std::uint64_t>());
  EXPECT_EQ(shown["summary"]["dropped"]["bytes"], last["dropped_bytes"]);
  EXPECT_EQ(shown["summary"]["dropped"]["contents"], last["dropped_buffers"]);
  EXPECT_GT(last["dropped_bytes"], 1 << 30);
  EXPECT_GT(*std::ranges::max_element(shown["ops"]["dropped"]), 1024) << "MiB at once";
}

TEST_F(Report, WhereNothingIsRecomputedThatIsSaidAndHasNoLane) {
  const ProcessResult result =
      run({"report", kUnet, "--budget", "60%", "--steps", "3", "--recompute", "auto", "-o", path("page.html")});
  EXPECT_NE(result.err.find("nothing is recomputed: that needs --exact"), std::string::npos) << result.err;
  const json shown = data_in(read(path("page.html")))["runs"][0];
  EXPECT_EQ(shown["recompute"], "off");
  EXPECT_FALSE(shown.contains("again") || shown.contains("drops") || shown["ops"].contains("dropped"));
  expect_refused({"report", kUnet, "--recompute", "aut"}, 2,
                 "--recompute: 'aut' is no recompute; known are off, auto; did you mean 'auto'?");
}

TEST_F(Report, WhatAProgramCallsItsBuffersIsShown) {
  const std::string trace = write("tagged.jsonl",
                                  "{\"schema\":\"thermocline-trace/1\"}\n{\"e\":\"alloc\",\"b\":7,\"n\":4096}\n"
                                  "{\"e\":\"alloc\",\"b\":9,\"n\":4096,\"tag\":\"layer 3\"}\n"
                                  "{\"e\":\"op\",\"k\":\"gemm\",\"r\":[],\"w\":[7,9],\"us\":5}\n");
  const json shown = data_in(page({trace, "--steps", "1"}))["runs"][0];
  EXPECT_EQ(shown["tags"], (json{"", "layer 3"}));
  EXPECT_EQ(shown["buffers"]["g"], (json{0, 1}));
  EXPECT_EQ(run({"export", trace, "--steps", "1", "--format", "csv", "-o", path("t.csv")}).status, 0);
  const std::string csv = read(path("t.csv"));
  EXPECT_NE(csv.find("\"from before (layer 3)\",,9,"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\"from before\",,7,"), std::string::npos) << csv;
}

TEST_F(Report, TwoTracesAreShownAgainstEachOther) {
  const std::string small = write("small.jsonl",
                                  "{\"schema\":\"thermocline-trace/1\"}\n{\"e\":\"alloc\",\"b\":0,\"n\":4096}\n"
                                  "{\"e\":\"op\",\"k\":\"</script><b>&\",\"r\":[],\"w\":[0],\"us\":5}\n");
  const json data = data_in(page({kUnet, "--against", small}));
  ASSERT_EQ(data["runs"].size(), 2u);
  EXPECT_EQ(data["runs"][1]["names"][0], "</script><b>&");
  EXPECT_EQ(data["runs"][1]["summary"]["peak_live"], 4096);
}

TEST_F(Report, BadInputIsRefusedInOneLine) {
  expect_refused({"report", path("absent"), "-o", path("x.html")}, 3,
                 path("absent") + ": can not be opened: No such file or directory");
  expect_refused({"report", kUnet, "--against", path("absent"), "-o", path("x.html")}, 3,
                 path("absent") + ": can not be opened: No such file or directory");
  expect_refused({"report", kUnet, "-o", "/nowhere/x.html"}, 1,
                 "/nowhere/x.html: can not be written: No such file or directory");
  expect_refused({"report", kUnet, "-o", "/dev/full"}, 1, "/dev/full: can not be written: No space left on device");
  EXPECT_FALSE(std::filesystem::exists(path("x.html")));
}

}  // namespace
}  // namespace thermocline::test
