// SPDX-License-Identifier: Apache-2.0
// Operators that are split: what is read, how the trace is rewritten, and that nothing changes what is computed.
#include "trace/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "driver/page_size.h"
#include "tests/support/seeds.h"
#include "tests/trace/trace_file.h"
#include "trace/replay.h"

namespace thermocline::test {
namespace {

constexpr long long kPage = kDefaultPageBytes;

std::string sliced(std::string event, int slices, const std::vector<int>& split) {
  event.pop_back();
  event += ",\"slices\":" + std::to_string(slices) + ",\"split\":[";
  for (std::size_t i = 0; i < split.size(); ++i) event += (i > 0 ? "," : "") + std::to_string(split[i]);
  return event + "]}";
}

// The weights 0 and their gradient 1 stay; 2 and 3 are split by the operator between them, and 3 also by the last one.
std::vector<std::string> layer(int slices = 4) {
  return {kHeader,
          alloc(0, 40),
          alloc(1, 40),
          alloc(2, 400),
          op("make", {}, {2}, 10),
          alloc(3, 400),
          sliced(op("layer", {2, 0}, {3, 1}, 100), slices, {2, 3}),
          release(2),
          op("use", {3}, {}, 10),
          sliced(op("clear", {0}, {3}, 50), 2, {3}),
          release(3),
          step(0)};
}

std::string error_with(const std::string& line) {
  return read_error(TraceFile({kHeader, alloc(0, 40), alloc(1, 41), alloc(2, 0), line, op("x", {0}, {}, 1), step(0)}));
}

TEST(Slices, MarksAreChecked) {
  const std::string plain = op("x", {0}, {1, 2}, 1);
  const auto with = [&](const std::string& more) { return plain.substr(0, plain.size() - 1) + more + "}"; };
  EXPECT_EQ(error_with(with(R"(,"slices":2)")),
            "5: operator \"x\" has \"slices\", and no buffer that is split (\"split\")");
  EXPECT_EQ(error_with(with(R"(,"split":[0])")),
            "5: operator \"x\" has buffers that are split (\"split\"), and does not say into how many (\"slices\")");
  EXPECT_EQ(error_with(sliced(plain, 1, {0})), "5: operator \"x\" has 1 slice; 2 to 1024 are possible");
  EXPECT_EQ(error_with(sliced(plain, 1025, {0})), "5: operator \"x\" has 1025 slices; 2 to 1024 are possible");
  EXPECT_EQ(error_with(sliced(plain, 2, {0, 0})), "5: operator \"x\" splits buffer 0 twice");
  EXPECT_EQ(error_with(sliced(op("x", {0}, {}, 1), 2, {0, 1})),
            "5: operator \"x\" splits buffer 1, which it neither reads nor writes");
  EXPECT_EQ(error_with(sliced(plain, 2, {0, 1})),
            "5: operator \"x\" splits buffer 1, whose 41 bytes are not 2 equal slices");
  EXPECT_EQ(error_with(sliced(plain, 2, {2})),
            "5: operator \"x\" splits buffer 2, whose 0 bytes are not 2 equal slices");
  EXPECT_EQ(error_with(with(R"(,"slices":"2","split":[0])")),
            "5: not a valid event at column 53, field \"slices\": expected a whole number");
}

TEST(Slices, AlternativesThatAreNotTakenAreCheckedToo) {
  std::string other = sliced(op("other", {}, {0}, 1), 3, {0});
  other.insert(other.size() - 1, R"(,"c":1,"a":"b")");
  std::string first = op("first", {}, {0}, 1);
  first.insert(first.size() - 1, R"(,"c":1,"a":"a")");
  EXPECT_EQ(read_error(TraceFile(
                {kHeader, alloc(0, 40), R"({"e":"choice","c":1,"k":"x","of":["a","b"]})", first, other, step(0)})),
            "5: operator \"other\" splits buffer 0, whose 40 bytes are not 3 equal slices");
}

// "a r:1+2 w:3", "+4:100", "-4".
std::vector<std::string> told(const Trace& trace) {
  std::vector<std::string> lines;
  for (const TraceEvent& event : trace.events) {
    const std::string number = std::to_string(event.index);
    if (event.kind == EventKind::kAllocate) {
      const TraceBuffer& buffer = trace.buffers[event.index];
      lines.push_back("+" + number + ":" + std::to_string(buffer.bytes));
    } else if (event.kind == EventKind::kFree) {
      lines.push_back("-" + number);
    } else {
      const TraceOperator& o = trace.operators[event.index];
      std::string text = trace.names[o.name];
      const char* before = " r:";
      for (const std::uint32_t b : trace.reads(o)) text += std::exchange(before, "+") + std::to_string(b);
      before = " w:";
      for (const std::uint32_t b : trace.writes(o)) text += std::exchange(before, "+") + std::to_string(b);
      if (o.slices > 0) text += " " + std::to_string(o.first_slice) + "/" + std::to_string(o.slices);
      lines.push_back(text);
    }
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(Split, AnOperatorThatFitsStaysWhole) {
  const Trace trace = read_valid(TraceFile(layer()));
  const SplitTrace split = split_operators(trace, {.limit = 880});
  EXPECT_TRUE(split.operators.empty());
  EXPECT_FALSE(split.any_split());
  EXPECT_EQ(told(split.trace), told(trace));
}

TEST(Split, PartsHavePieces) {
  const Trace trace = read_valid(TraceFile(layer()));
  const SplitTrace split = split_operators(trace, {.limit = 879});
  split.trace.validate();
  ASSERT_EQ(split.operators.size(), 1u);
  EXPECT_EQ(split.operators[0].op, 1u);
  EXPECT_EQ(split.operators[0].parts, 2u);
  EXPECT_EQ(split.operators[0].bytes, 880u);
  EXPECT_EQ(split.operators[0].part_bytes, 480u);
  // 2 is allocated before "make", and so whole; 3 in pieces as they are made. The gradient accumulates.
  EXPECT_EQ(told(split.trace),
            (Lines{"+0:40", "+1:40", "+2:200", "+3:200", "make w:2+3", "+4:200", "layer r:2+0 w:4+1 0/2", "-2",
                   "+5:200", "layer r:3+0+1 w:5+1 2/2", "-3", "use r:4+5", "clear r:0 w:4+5", "-4", "-5"}));
  EXPECT_EQ(split.trace.peak_live_bytes, 80u + 600u);
  EXPECT_EQ(split.trace.buffers[5].id, 3u);
  EXPECT_TRUE(split.trace.buffers[5].continues);
  EXPECT_FALSE(split.trace.buffers[4].continues);
  ASSERT_EQ(split.trace.steps.size(), 1u);
  EXPECT_EQ(split.trace.steps[0].end, split.trace.events.size());
}

TEST(Split, PiecesAreCutForAllOperatorsThatSplitThem) {
  const Trace trace = read_valid(TraceFile(layer(5)));
  const SplitTrace split = split_operators(trace, {.limit = 400});
  split.trace.validate();
  EXPECT_EQ(told(split.trace), (Lines{"+0:40",
                                      "+1:40",
                                      "+2:80",
                                      "+3:160",
                                      "+4:160",
                                      "make w:2+3+4",
                                      "+5:80",
                                      "layer r:2+0 w:5+1 0/1",
                                      "-2",
                                      "+6:120",
                                      "+7:40",
                                      "layer r:3+0+1 w:6+7+1 1/2",
                                      "-3",
                                      "+8:160",
                                      "layer r:4+0+1 w:8+1 3/2",
                                      "-4",
                                      "use r:5+6+7+8",
                                      "clear r:0 w:5+6 0/1",
                                      "-5",
                                      "-6",
                                      "clear r:0 w:7+8 1/1",
                                      "-7",
                                      "-8"}));
}

TEST(Split, WhatCanNotBeSplitIsSaid) {
  const Trace trace = read_valid(TraceFile(layer()));
  const SplitTrace split = split_operators(trace, {.limit = 279});
  EXPECT_FALSE(split.any_split() && split.operators[0].parts > 1);
  const auto layer_op = std::ranges::find(split.operators, 1u, &SplitOperator::op);
  ASSERT_NE(layer_op, split.operators.end());
  EXPECT_EQ(layer_op->why_not, "one of 4 slices needs 280 bytes");
  std::vector<std::string> lines = layer();
  std::erase(lines, release(3));
  const SplitTrace stays = split_operators(read_valid(TraceFile(lines)), {.limit = 879});
  ASSERT_EQ(stays.operators.size(), 1u);
  EXPECT_EQ(stays.operators[0].why_not, "buffer 3, which is split with it, is not freed in its step");
}

TEST(Split, PartsTakeTheirShareOfTheTimeAndALaunch) {
  Trace trace = read_valid(TraceFile(layer()));
  SplitTrace split = split_operators(trace, {.limit = 879, .launch_seconds = 4e-6});
  EXPECT_DOUBLE_EQ(split.trace.operators[1].microseconds, 96.0 / 2 + 4);
  EXPECT_DOUBLE_EQ(split.trace.operators[2].microseconds, 96.0 / 2 + 4);
  TraceOperator& op = trace.operators[1];
  op.microseconds = std::numeric_limits<double>::quiet_NaN();
  op.flops = 1000;
  op.bytes = 880;
  split = split_operators(trace, {.limit = 879});
  EXPECT_DOUBLE_EQ(split.trace.operators[1].flops, 500);
  // The weights are read, and the gradient is read and written, once more.
  EXPECT_DOUBLE_EQ(split.trace.operators[1].bytes, 440 + 0.5 * (40 + 80));
}

TEST(Split, WholePagesCount) {
  const Trace trace = read_valid(TraceFile(layer()));
  EXPECT_EQ(operand_bytes(trace, trace.operators[1], 256), 512u + 256 + 512 + 256);
  EXPECT_EQ(split_operators(trace, {.limit = 1100, .page_bytes = 256}).operators.at(0).part_bytes, 1024u);
}

// Eight slices of 125 bytes, in pages of 100.
std::vector<std::string> uneven(const std::string& use) {
  return {kHeader,        alloc(0, 100),
          alloc(2, 1000), op("make", {}, {2}, 10),
          alloc(3, 1000), sliced(op("layer", {2, 0}, {3}, 100), 8, {2, 3}),
          release(2),     use,
          release(3),     step(0)};
}

TEST(Split, WhatNeedsMoreInPiecesIsDividedToo) {
  const Trace trace = read_valid(TraceFile(uneven(sliced(op("use", {3}, {}, 10), 4, {3}))));
  const SplitTrace split = split_operators(trace, {.limit = 1050, .page_bytes = 100});
  split.trace.validate();
  // Three parts of 3, 3 and 2 slices; the three pieces take 300 + 400 + 400 bytes.
  ASSERT_EQ(split.operators.size(), 3u);
  EXPECT_EQ(split.operators[1].parts, 3u);
  EXPECT_EQ(split.operators[2].op, 2u);
  EXPECT_EQ(split.operators[2].bytes, 1000u);
  EXPECT_EQ(split.operators[2].parts, 2u);
  EXPECT_EQ(split.operators[2].part_bytes, 600u);
  // The second part of the layer now makes two pieces, 300 and 200.
  EXPECT_EQ(split.operators[1].part_bytes, 100u + 400 + 300 + 200);
  // The operator that makes the layer's input has no mark.
  EXPECT_EQ(split.operators[0].parts, 1u);
  EXPECT_EQ(split.operators[0].part_bytes, 300u + 400 + 400);
  for (const TraceOperator& op : split.trace.operators) {
    const bool is_make = split.trace.names[op.name] == "make";
    EXPECT_TRUE(is_make || operand_bytes(split.trace, op, 100) <= 1050u) << split.trace.title_of(op);
  }
}

TEST(Split, WhatNeedsMoreInPiecesAndHasNoMarkIsSaid) {
  const Trace trace = read_valid(TraceFile(uneven(op("use", {3}, {}, 10))));
  const SplitTrace split = split_operators(trace, {.limit = 1050, .page_bytes = 100});
  ASSERT_EQ(split.operators.size(), 3u);
  EXPECT_EQ(split.operators[2].parts, 1u);
  EXPECT_EQ(split.operators[2].part_bytes, 300u + 400 + 400);
}

TEST(Split, PartsAreTitledByNumber) {
  const Trace trace = read_valid(TraceFile(layer()));
  const SplitTrace split = split_operators(trace, {.limit = 879});
  EXPECT_EQ(split.trace.title_of(split.trace.operators[0]), "make");
  EXPECT_EQ(split.trace.title_of(split.trace.operators[2]), "layer part 2 of 2");
}

// --- Through the library ---

struct Terms {
  Bytes budget = 0;
  bool exact = false;
  std::optional<std::uint64_t> seed = {};
  std::size_t steps = 5;
};

ReplayResult replayed(const Trace& trace, const Terms& terms) {
  StepProgram program;
  std::string reason;
  EXPECT_TRUE(plan_steps(trace, terms.steps, &program, &reason)) << reason;
  ReplayOptions options;
  options.device.library = THERMOCLINE_SIMULATED_CUDA;
  options.device.seed = terms.seed;
  options.device.check = true;
  options.engine.budget_bytes = terms.budget;
  options.engine.policy = terms.budget == 0 ? kNoPolicy : kLearnedPolicy;
  options.engine.recompute = terms.exact ? Recompute::kAuto : Recompute::kOff;
  options.exact = terms.exact;
  options.rates = DeviceRates{1e12, 1e12, 1e10, 1e10, 4e-6};
  ReplayResult result;
  EXPECT_TRUE(replay(trace, program, options, &result, &reason)) << reason;
  EXPECT_EQ(result.races, 0u);
  if (terms.budget != 0) {
    EXPECT_LE(result.peak_device_bytes, terms.budget);
  }
  return result;
}

// A chain of layers forward and backward, each of which keeps its input for the way back. Sizes, numbers of slices,
// operators that are split, and operands in place are random; the steps are equal.
class RandomLayers {
 public:
  explicit RandomLayers(unsigned seed) : random_(seed) {}

  std::vector<std::string> lines() {
    const int layers = below(3) + 3;
    std::vector<int> pages, slices;
    for (int i = 0; i <= layers; ++i) pages.push_back(12 * (1 + below(3)));
    for (int i = 0; i < layers; ++i)
      slices.push_back(std::vector<int>{2, 3, 4, 6, 12}[static_cast<std::size_t>(below(5))]);
    const int in_place = below(layers), odd = below(4);
    std::vector<std::string> out{kHeader};
    for (int i = 0; i < layers; ++i) {
      out.push_back(alloc(i, kPage));
      out.push_back(alloc(100 + i, kPage));
    }
    for (int s = 0; s < 3; ++s) {
      const int base = 1000 * (s + 1), back = base + 500;
      const auto is_split = [&](int i) { return (i + odd) % 4 != 0; };
      out.push_back(alloc(base, pages[0] * kPage));
      out.push_back(op("input", {}, {base}, 20));
      for (int i = 0; i < layers; ++i) {
        const int x = base + i, y = x + 1;
        out.push_back(alloc(y, pages[static_cast<std::size_t>(i) + 1] * kPage));
        const std::string forward = op("forward", {i, x}, {y}, 100);
        out.push_back(is_split(i) ? sliced(forward, slices[static_cast<std::size_t>(i)], {x, y}) : forward);
        if (i == in_place) out.push_back(sliced(op("activate", {y}, {y}, 30), 12, {y}));
      }
      out.push_back(alloc(back + layers, pages.back() * kPage));
      out.push_back(op("loss", {base + layers}, {back + layers}, 20));
      for (int i = layers - 1; i >= 0; --i) {
        const int x = base + i, y = x + 1, dx = back + i, dy = dx + 1;
        out.push_back(alloc(dx, pages[static_cast<std::size_t>(i)] * kPage));
        const std::string backward = op("backward", {i, x, dy}, {100 + i, dx}, 200);
        out.push_back(is_split(i + 1) ? sliced(backward, slices[static_cast<std::size_t>(i)], {x, dy, dx}) : backward);
        out.push_back(release(dy));
        out.push_back(release(y));
      }
      for (int i = 0; i < layers; ++i) out.push_back(op("update", {100 + i}, {i}, 10));
      out.push_back(release(base));
      out.push_back(release(back));
      out.push_back(step(s));
    }
    return out;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::mt19937 random_;
};

class SplitPrograms : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Random, SplitPrograms, testing::ValuesIn(test_seeds(16)));

// Halves the limit as long as something is split by it.
TEST_P(SplitPrograms, ComputeWhatTheWholeOnesDo) {
  const Trace trace = read_valid(TraceFile(RandomLayers(static_cast<unsigned>(GetParam())).lines()));
  const std::uint64_t expected = replayed(trace, {}).checksum;
  Bytes most = 0;
  for (const TraceOperator& op : trace.operators) most = std::max(most, operand_bytes(trace, op, kPage));
  std::size_t splits = 0, runs = 0;
  for (Bytes limit = most - 1; limit >= static_cast<Bytes>(8 * kPage) && splits < 3; limit = limit / 4 * 3) {
    const SplitTrace split = split_operators(trace, {.limit = limit, .page_bytes = kPage});
    if (!split.any_split()) continue;
    ++splits;
    split.trace.validate();
    for (const SplitOperator& o : split.operators) EXPECT_TRUE(o.parts == 1 || o.part_bytes <= limit);
    std::map<std::uint64_t, Bytes> pieces;
    for (const TraceBuffer& piece : split.trace.buffers) pieces[piece.id] += piece.bytes;
    for (const TraceBuffer& buffer : trace.buffers) EXPECT_EQ(pieces[buffer.id], buffer.bytes);
    EXPECT_EQ(replayed(split.trace, {}).checksum, expected);
    // The largest part needs this much beside what shares pages.
    Bytes budget = 0;
    for (const TraceOperator& op : split.trace.operators)
      budget = std::max(budget, operand_bytes(split.trace, op, kPage));
    budget += static_cast<Bytes>(4 * kPage);
    for (const bool exact : {false, true}) {
      for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), {GetParam()}}) {
        const ReplayResult result = replayed(split.trace, {.budget = budget, .exact = exact, .seed = seed});
        if (result.outcome != ReplayOutcome::kOk) continue;
        ++runs;
        EXPECT_EQ(result.checksum, expected) << "limit " << limit << ", exact " << exact;
      }
    }
  }
  EXPECT_GE(splits, 1u);
  EXPECT_GE(runs, 4 * splits / 2) << "most of them fit";
}

// A layer as above, in pages, in three steps.
std::vector<std::string> large_layer() {
  std::vector<std::string> out{kHeader, alloc(0, kPage), alloc(1, kPage)};
  for (int s = 0; s < 3; ++s) {
    const int x = 10 * (s + 1), y = x + 1;
    out.push_back(alloc(x, 40 * kPage));
    out.push_back(op("make", {}, {x}, 10));
    out.push_back(alloc(y, 40 * kPage));
    out.push_back(sliced(op("layer", {x, 0}, {y, 1}, 100), 8, {x, y}));
    out.push_back(release(x));
    out.push_back(op("use", {y}, {}, 10));
    out.push_back(release(y));
    out.push_back(step(s));
  }
  return out;
}

TEST(Split, WhatDidNotFitFits) {
  const Trace trace = read_valid(TraceFile(large_layer()));
  const Bytes budget = static_cast<Bytes>(60 * kPage);
  const std::uint64_t expected = replayed(trace, {}).checksum;
  for (const bool exact : {false, true}) {
    EXPECT_EQ(replayed(trace, {.budget = budget, .exact = exact}).outcome, ReplayOutcome::kOutOfMemory);
    const SplitTrace split = split_operators(trace, {.limit = budget, .page_bytes = kPage});
    const ReplayResult result = replayed(split.trace, {.budget = budget, .exact = exact});
    EXPECT_EQ(result.outcome, ReplayOutcome::kOk) << result.report;
    EXPECT_EQ(result.checksum, expected);
  }
}

}  // namespace
}  // namespace thermocline::test
