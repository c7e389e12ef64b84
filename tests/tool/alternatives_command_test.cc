// SPDX-License-Identifier: Apache-2.0
// Traces whose operators have alternatives, through the commands.
#include <nlohmann/json.hpp>

#include "tests/tool/command_fixture.h"
#include "tests/tool/replayed.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

constexpr long long kMi = 1 << 20;

json marked(json event, int choice, const char* alternative) {
  event["c"] = choice;
  event["a"] = alternative;
  return event;
}
json alloc(int id, long long bytes) { return {{"e", "alloc"}, {"b", id}, {"n", bytes}}; }
json release(int id) { return {{"e", "free"}, {"b", id}}; }
json op(const char* name, std::vector<int> reads, std::vector<int> writes, double us) {
  return {{"e", "op"}, {"k", name}, {"r", reads}, {"w", writes}, {"us", us}};
}

// Layers of attention: fast as matrices, which are large, or slower without them.
std::string attention(int layers) {
  std::string text = R"({"schema":"thermocline-trace/1"})";
  const auto add = [&text](const json& event) { text += "\n" + event.dump(); };
  for (int c = 0; c < layers; ++c) add({{"e", "choice"}, {"c", c}, {"k", "attention"}, {"of", {"math", "efficient"}}});
  for (int s = 0; s < 3; ++s) {
    const int base = s * 1000;
    add(alloc(base, 8 * kMi));
    add(op("input", {}, {base}, 50));
    for (int c = 0; c < layers; ++c) {
      const int x = base + c, y = x + 1, matrix = base + 100 + c;
      add(marked(alloc(matrix, 64 * kMi), c, "math"));
      add(alloc(y, 8 * kMi));
      add(marked(op("softmax", {x}, {matrix}, 100), c, "math"));
      add(marked(op("matmul", {x, matrix}, {y}, 100), c, "math"));
      add(marked(op("efficient", {x}, {y}, 230), c, "efficient"));
    }
    for (int c = layers; c-- > 0;) {
      const int x = base + c, y = x + 1, matrix = base + 100 + c;
      add(marked(op("math_backward", {x, matrix, y}, {x}, 400), c, "math"));
      add(marked(op("efficient_backward", {x, y}, {x}, 600), c, "efficient"));
      add(marked(release(matrix), c, "math"));
      add(release(y));
    }
    add(release(base));
    add({{"e", "step"}, {"i", s}});
  }
  return text + "\n";
}

TEST_F(Command, AReplayTakesTheAlternativesThatSuitTheBudget) {
  const std::string trace = write("attention.jsonl", attention(12));
  const auto replayed = [&](const std::string& mode, const std::string& budget) {
    return replay_json(run({"replay", trace, "--budget", budget, "--exact", "--alternatives", mode, "--json"}));
  };
  const auto taken = [](const json& result) {
    int efficient = 0;
    for (const json& choice : result["alternatives"]["choices"]) efficient += choice["taken"] == "efficient" ? 1 : 0;
    return efficient;
  };
  const json recorded = replayed("recorded", "50%"), chosen = replayed("auto", "50%"), whole = replayed("auto", "120%");
  EXPECT_EQ(taken(recorded), 0);
  EXPECT_EQ(taken(whole), 0) << "there is room for what is fast";
  EXPECT_GE(taken(chosen), 5);
  EXPECT_LE(taken(chosen), 7);
  EXPECT_EQ(chosen["alternatives"]["mode"], "auto");
  EXPECT_EQ(chosen["alternatives"]["choices"][0]["recorded"], "math");
  EXPECT_EQ(chosen["budget_bytes"], recorded["budget_bytes"]) << "a part of what was recorded";
  EXPECT_LT(chosen["steady_step_ms"].get<double>(), 0.6 * recorded["steady_step_ms"].get<double>());
  EXPECT_EQ(chosen["races"], 0);
  EXPECT_EQ(taken(replayed("efficient", "50%")), 12);
  EXPECT_EQ(replay_json(run({"replay", kUnet, "--steps", "2", "--alternatives", "auto", "--json"}))["alternatives"],
            nullptr);
}

TEST_F(Command, SaysWhichAlternativesItTook) {
  const std::string trace = write("attention.jsonl", attention(4));
  const auto says = [](const ProcessResult& result, const std::string& text) {
    EXPECT_NE((result.out + result.err).find(text), std::string::npos) << result.out << result.err;
  };
  says(run({"replay", trace, "--alternatives", "efficient"}),
       "  of alternatives (efficient) it takes attention: efficient in 4 of 4\n");
  says(run({"bound", trace, "--budget", "80%"}),
       "bounds with these alternatives, others may be faster: attention: math in 4 of 4\n");
  says(run({"bound", trace, "--budget", "80%", "--alternatives", "efficient"}), "attention: efficient in 4 of 4\n");
  says(run({"estimate", trace, "--device", "h200", "--alternatives", "auto"}),
       "Alternatives on h200: attention: math in 4 of 4.\n");
  says(run({"compare", trace, trace}), "its operators have alternatives (4 choices); what was recorded is taken");
}

TEST_F(Command, AlternativesThatNoChoiceHasAreRefused) {
  const std::string trace = write("attention.jsonl", attention(2));
  expect_refused(
      {"replay", trace, "--alternatives", "eficient"}, 3,
      "--alternatives: no choice of the trace has 'eficient'; known are recorded, auto, math, efficient; did "
      "you mean 'efficient'?");
  expect_refused({"bound", trace, "--alternatives", "auto"}, 3,
                 "--alternatives: 'auto' depends on what is replayed; known are recorded, math, efficient");
  expect_refused({"replay", kUnet, "--alternatives", "flash"}, 3,
                 kUnet + ": no operator of this trace has alternatives, so --alternatives 'flash' is not known");
  expect_refused({"replay", write("bad.jsonl",
                                  "{\"schema\":\"thermocline-trace/1\"}\n"
                                  R"({"e":"choice","c":1,"k":"x","of":["a"]})"
                                  "\n")},
                 3, path("bad.jsonl") + ":2: choice 1 has 1 alternatives (\"of\"); 2 to 32 are possible");
}

}  // namespace
}  // namespace thermocline::test
